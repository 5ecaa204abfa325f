"""Facts that people state and ask for: twenty kinds, each with a unique value.

Half are English, half Chinese. A fact is stated in one sentence and asked for once, in the same words or in others:
then the thing has another name too. Nothing here says which value belongs to which thing: that is the script's to make
up, and the model's to have read.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Kind:
    """A kind of fact.

    :param said: its statement: ``{it}`` is the thing, ``{value}`` what is to be remembered of it.
    :param plain: how it is asked in the same words; ``other`` in other words, where ``{it}`` is the other name.
    :param things: name and other name of each thing.
    :param value: makes a value up, from a number that comes once.
    """

    said: str
    plain: str
    other: str
    things: tuple[tuple[str, str], ...]
    value: Callable[[int], str]

    def meant(self, sentence: str) -> "re.Pattern[str] | None":
        """Return the pattern of the statement that answers a question of this kind, its value as group 1, or None."""
        if found := self._plain.fullmatch(sentence):
            return self._telling(found[1])
        if found := self._other.fullmatch(sentence):
            names = {other: name for name, other in self.things}
            return self._telling(names.get(found[1], found[1]))
        return None

    @cached_property
    def _plain(self) -> "re.Pattern[str]":
        return _hole(self.plain)

    @cached_property
    def _other(self) -> "re.Pattern[str]":
        return _hole(self.other)

    def _telling(self, it: str) -> "re.Pattern[str]":
        before, after = self.said.split("{value}")
        return re.compile(re.escape(before.format(it=it)) + "(.{1,60}?)" + re.escape(after.format(it=it)))


def _hole(template: str) -> "re.Pattern[str]":
    before, after = template.split("{it}")
    return re.compile(re.escape(before) + "(.+?)" + re.escape(after))


@dataclass(frozen=True)
class Fact:
    """A fact that is stated once and asked for once.

    :param reworded: asked in other words.
    """

    said: str
    asked: str
    value: str
    reworded: bool
    chinese: bool


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """``name | other name`` by line; or names in one line, which have no other."""
    lines = text.strip().splitlines()
    rows = [line.split(" | ") for line in (lines if len(lines) > 1 else text.split())]
    return tuple((row[0], row[-1]) for row in rows)


def _from(words: str) -> Callable[[int], str]:
    """The words in turn, of which there are enough."""
    chosen = [word.strip() for word in words.split(",")]
    return lambda number: chosen[number % len(chosen)]


_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
_PEOPLE = "Mara Tomasz Ingrid Rashid Helene Dmitri Oluchi Bastian Yasmin Pedro"
_TEAM = "Annika Kofi Leticia Sören Priya Walter Noor Emeka Greta Luca"
_FIRMS = "Norwick Halberg Castellan Brightwater Oakline Ferrum Quillon Tessaro Vandermeer Pinnock"
_CITIES = "Lisbon Oslo Nairobi Toronto Osaka Dublin Warsaw Lima Athens Seattle"

_GOODS = """
standing desk | adjustable table
espresso machine | coffee maker
label printer | sticker machine
whiteboard | writing board
air conditioner | cooling unit
security camera | surveillance device
dishwasher | machine that cleans the plates
vacuum cleaner | hoover
projector | beamer for slides
laptop batch | new notebooks
"""
_PAPERS = """
tax return | yearly income declaration
grant application | request for funding
visa form | travel permit papers
insurance claim | damage report to the insurer
expense report | list of what we spent
building permit | permission to construct
patent filing | papers about the invention
lease renewal | extension of the rental contract
audit reply | answer to the auditors
conference abstract | short text for the symposium
"""
_SYSTEMS = """
billing service | software that writes invoices
warehouse scanners | devices that read parcels
staff calendar | schedule of the employees
customer newsletter | mailing to our clients
phone system | way we take calls
photo archive | store of our pictures
payroll run | payment of salaries
help desk | place where users complain
door access | way people get into the office
video meetings | calls with a camera
"""
_HIDDEN = """
spare key | second key
first-aid box | medical kit
fuse box | electric panel
guest badge | visitor card
old contracts | earlier agreements
ladder | thing to climb on
backup drive | disk with the copies
company seal | official stamp
bicycle pump | tool for flat tyres
petty cash | small money
"""

_GOODS_ZH = """
升降桌 | 可以调高低的桌子
咖啡机 | 煮咖啡的设备
投影仪 | 放幻灯片的机器
打印机 | 印文件的机器
空调 | 制冷的设备
摄像头 | 监控设备
洗碗机 | 洗盘子的机器
吸尘器 | 打扫地板的电器
书架 | 放书的柜子
净水器 | 过滤水的装置
"""
_PAPERS_ZH = """
年度预算 | 明年的花钱计划
报税表 | 交给税务局的材料
签证申请 | 出国手续的文件
保险理赔单 | 向保险公司要赔偿的单子
专利说明 | 发明的文字材料
租房合同 | 续租的协议
体检报告 | 身体检查的结果
项目总结 | 工程做完以后的汇报
论文初稿 | 文章的第一版
报销单 | 要回垫付费用的表格
"""
_AFFAIRS_ZH = """
新官网 | 公司网站的改版
仓库系统 | 管理库存的软件
年会场地 | 年底聚会的地方
客服热线 | 顾客打来的电话
考勤方式 | 上下班打卡的办法
备份方案 | 保存副本的做法
快递合作 | 寄包裹的公司
培训课程 | 员工学习的内容
办公软件 | 写文档的工具
宣传册 | 介绍公司的小册子
"""
_HIDDEN_ZH = """
备用钥匙 | 第二把钥匙
急救箱 | 药品和绷带
公章 | 公司的印
梯子 | 爬高用的东西
旧合同 | 以前签的协议
访客证 | 客人用的牌子
移动硬盘 | 存数据的盘
雨伞 | 下雨用的东西
工具箱 | 修东西的家伙
礼品盒 | 送客户的礼物
"""
_PEOPLE_ZH = "小林 老周 阿梅 陈工 刘姐 孙磊 许宁 马涛 赵婷 何川"
_TEAM_ZH = "王敏 李强 张悦 吴昊 郑洁 冯凯 蒋雯 韩冰 曹阳 彭飞"
_FIRMS_ZH = "恒达 远帆 金桥 瑞丰 同创 海纳 博通 天际 联华 永信"
_CITIES_ZH = "成都 厦门 西安 昆明 大连 南京 青岛 长沙 哈尔滨 三亚"

_KINDS = (
    Kind("The order number of the {it} is {value}.", "What is the order number of the {it}?",
         "Under which reference did we buy the {it}?", _pairs(_GOODS),
         lambda n: f"PO-{41017 + n * 379}"),
    Kind("{it} must not eat {value}.", "What is it that {it} must not eat?",
         "Which food has to stay off the plate of {it}?", _pairs(_PEOPLE),
         _from("hazelnuts, shellfish, celery, sesame, mustard, lupin, peanuts, gluten, strawberries, eggs")),
    Kind("The birthday of {it} is on {value}.", "On which day is the birthday of {it}?",
         "When should a cake with candles be ready for {it}?", _pairs(_TEAM),
         lambda n: f"{n % 27 + 1} {_MONTHS[n % 10]}"),
    Kind("For the {it} we decided to go with {value}.", "What did we decide to go with for the {it}?",
         "Which choice was made about the {it}?", _pairs(_SYSTEMS),
         _from("Postgrove, Zebrant, Timetta, Mailforge, Voxwell, Lumora, Paywise, Ticketon, Keyfold, Huddlecam")),
    Kind("The {it} has to be handed in by {value}.", "By when does the {it} have to be handed in?",
         "What is the last day to submit the {it}?", _pairs(_PAPERS), lambda n: f"{_MONTHS[-1 - n % 9]} {n % 26 + 2}"),
    Kind("The {it} is kept in {value}.", "Where is the {it} kept?",
         "In what place can I find the {it}?", _pairs(_HIDDEN),
         lambda n: f"cabinet {n * 7 % 90 + 10}-{'ABCDEFGHJK'[n % 10]}"),
    Kind("{it} agreed to deliver for {value} a month.", "For how much a month did {it} agree to deliver?",
         "What does {it} charge us?", _pairs(_FIRMS), lambda n: f"{2113 + n * 17:,} euros"),
    Kind("Our contact at {it} is {value}.", "Who is our contact at {it}?",
         "Whom do I call when something is wrong with {it}?", _pairs(_FIRMS),
         _from("Nadia Brandt, Colm Reyes, Ulla Sato, Ivo Marsh, Tess Okafor, Henk Duarte, Mina Falk, "
                               "Jorge Lind, Petra Voss, Amir Quist")),
    Kind("The flight to {it} is {value}.", "Which one is the flight to {it}?",
         "What plane am I taking when I travel to {it}?", _pairs(_CITIES),
         lambda n: f"{('LH', 'BA', 'KL', 'TP', 'SK')[n % 5]} {2011 + n * 43}"),
    Kind("In meetings {it} drinks nothing but {value}.", "What does {it} drink in meetings?",
         "Which beverage should stand ready for {it}?", _pairs(_TEAM),
         _from("rooibos, oolong, tomato juice, ginger ale, buttermilk, cider, ayran, lassi, mate, horchata")),
    Kind("{it}的订单号是{value}。", "{it}的订单号是多少？", "我们买{it}时的编号是什么？", _pairs(_GOODS_ZH),
         lambda n: f"DD-{73015 + n * 211}"),
    Kind("{it}不能吃{value}。", "{it}不能吃什么？", "给{it}点菜要避开哪种食物？", _pairs(_PEOPLE_ZH),
         _from("花生, 螃蟹, 芒果, 牛奶, 香菜, 辣椒, 羊肉, 鸡蛋, 虾仁, 核桃")),
    Kind("{it}的生日是{value}。", "{it}的生日是哪天？", "哪一天该给{it}准备蛋糕？", _pairs(_TEAM_ZH),
         lambda n: f"{n % 12 + 1}月{n % 27 + 1}日"),
    Kind("{it}我们决定用{value}。", "{it}我们决定用什么？", "关于{it}，最后选了哪一个？", _pairs(_AFFAIRS_ZH),
         _from("青禾版, 云仓通, 湖心楼, 语达, 指静脉, 双城备, 迅捷达, 启明课, 墨白文档, 彩页坊")),
    Kind("{it}必须在{value}之前交。", "{it}必须在什么时候之前交？", "{it}的截止日期是哪一天？", _pairs(_PAPERS_ZH),
         lambda n: f"{n % 11 + 2}月{n % 25 + 3}号"),
    Kind("{it}放在{value}。", "{it}放在哪里？", "去什么地方能找到{it}？", _pairs(_HIDDEN_ZH),
         lambda n: f"{'东西南北中'[n % 5]}区{n * 7 % 60 + 11}号柜"),
    Kind("{it}谈好的价格是每月{value}元。", "{it}谈好的价格是每月多少？", "{it}向我们收多少钱？", _pairs(_FIRMS_ZH),
         lambda n: f"{3107 + n * 131}"),
    Kind("{it}那边的联系人是{value}。", "{it}那边的联系人是谁？", "出了问题该给{it}的哪一位打电话？", _pairs(_FIRMS_ZH),
         _from("沈若兰, 袁立新, 白露, 顾长风, 叶知秋, 宋清和, 陶然, 江小白, 秦书远, 柳如烟")),
    Kind("去{it}的航班是{value}。", "去{it}的航班是哪一班？", "我飞{it}坐的是哪架飞机？", _pairs(_CITIES_ZH),
         lambda n: f"{('CA', 'MU', 'CZ', 'HU', '3U')[n % 5]}{4021 + n * 37}"),
    Kind("开会时{it}只喝{value}。", "开会时{it}喝什么？", "给{it}端哪种饮料合适？", _pairs(_TEAM_ZH),
         _from("普洱, 豆浆, 柠檬水, 菊花茶, 酸梅汤, 姜汤, 椰汁, 龙井, 大麦茶, 杏仁露")),
)  # fmt: skip


def facts(count: int, dice: random.Random) -> tuple[Fact, ...]:
    """So many facts of all kinds, in any order, half of them asked in other words; 200 at most."""
    made = []
    for at in range(len(_KINDS) * len(_KINDS[0].things)):
        kind, thing = _KINDS[at % len(_KINDS)], at // len(_KINDS)
        name, other = kind.things[thing]
        value, reworded = kind.value(thing + 10 * (at % len(_KINDS))), bool((thing + at) % 2)
        asked = kind.other.format(it=other) if reworded else kind.plain.format(it=name)
        made.append(
            Fact(kind.said.format(it=name, value=value), asked, value, reworded, kind.said.endswith("。"))
        )
    dice.shuffle(made)
    return tuple(made[:count])


def meant(question: str) -> "re.Pattern[str] | None":
    """Return the pattern of the statement that answers a question; None when it is no such question."""
    return next((telling for kind in _KINDS if (telling := kind.meant(question))), None)


def all_values(some: Sequence[Fact]) -> set[str]:
    """The values of these facts."""
    return {fact.value for fact in some}
