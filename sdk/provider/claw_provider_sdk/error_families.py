"""Families of words by which services name a failure, in English and Chinese. Pure.

A family is a set of expressions over the error's type, code and message as one text: the code ``DataInspectionFailed``
becomes ``data inspection failed``. They were written from the services that ``tests/cases/data/service_errors.jsonl``
marks ``build``; those marked ``held-out`` only measure them.
"""

import re
from functools import cache

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINTS = re.compile(r"[_.\-:/#\s]+")

_KEY = r"(?:api[ -]?key|x-api-key|(?:access|secret)[ -]?key|(?:access|bearer|security|auth\w*|api)[ -]token|credentials?)"
_BAD = r"(?:incorrect|invalid|wrong|missing|expired|malformed)"
_MODEL = r"\b(?:models?|deployments?)\b"
_LONG = r"(?:too (?:long|large|big)|exceed\w*|(?:longer|greater|larger) than|over the|超过|超出|超限|超长|过长|太长)"
_INPUT = r"\b(?:prompt|inputs?|messages?|requests?|conversation)\b"
_SIZE = r"\b(?:tokens?|limit|maximum|window|context|length)\b"
_CONTEXT = r"(?:context|上下文)(?:[ _]?(?:length|window|size|limit)|长度|窗口)?"
_SOON = r"(?:currently |temporarily |too |very |at the moment )?"

_KEY_FAULTS = (  # about the key itself, whatever the status
    rf"\b{_BAD} (?:or \w+ )?(?:your )?{_KEY}",
    rf"\b{_KEY}\b.{{0,12}}\b(?:not valid|invalid|not found|expired|incorrect|missing)",
    r"unregistered callers|token expired|expired[ _]?token|unrecognized client|auth failure",
    r"\bsecurity token\b.{0,40}\b(?:invalid|expired)",
    r"\bsignature\b.{0,60}\b(?:not match|mismatch|invalid|expired)|\bcredentials?\b.{0,40}\bnot be validated",
    r"\bnot (?:authenticated|logged in)\b|\bno valid\b.{0,30}\bcredentials?\b",
    r"\bcredentials?\b.{0,20}\bnot (?:been )?provided",
    r"\b(?:organi[sz]ation|account|key)\b.{0,20}\b(?:has been|is|was) (?:disabled|deactivated|banned)",
    r"(?:api ?key|令牌|密钥).{0,10}(?:无效|错误|过期|不存在|失效|不正确)",
    r"无效的?(?:api|令牌|密钥|token)|(?:认证|鉴权|身份验证)失败",
)

FAMILIES = {
    "billing": (
        r"insufficient (?:\w+ ){0,2}(?:quota|balance|credits?|funds?)",
        r"exceeded your current quota",
        r"exceeded[ _]current[ _]quota|check your plan and billing",
        r"credit[ _]balance|\bbalance\b.{0,20}\b(?:insufficient|not enough|too low)",
        r"\b(?:key|budget|credit) limit (?:has been |is |was )?(?:exceeded|reached)",
        r"(?<!token )(?<!thinking )(?<!reasoning )\bbudget (?:has been |is |was )?(?:exceeded|exhausted|used up)",
        r"\byour quota\b.{0,60}\bexhausted",
        r"(?:valid|add a|enter a|register (?:a|your)) (?:credit card|payment method)",
        r"used up\b.{0,40}\b(?:allocation|allowance|credits?|quota)",
        r"(?:requires?|need|purchase|buy) (?:\w+ )?more credits",
        r"credits? (?:\w+ ){0,3}(?:depleted|exhausted|used up|expired)",
        r"\bcredits? (?:are )?(?:remaining|left)\b|\bcredits? (?:is|are) required",
        r"(?:out of|not (?:have )?enough|no|run out of|have any) (?:\w+ ){0,2}(?:credits|balance|funds)\b",
        r"can only afford|pre-?consumed quota\b.{0,20}\bfailed|\bquota is not enough",
        r"payment (?:is )?required",
        r"billing[ _](?:error|not active|hard limit)",
        r"\boverdue\b",
        r"not (?:been )?purchased",
        r"\bfree (?:\w+ )?(?:quota|tier|credits?)\b.{0,40}(?:exceeded|exhausted|used up|expired)",
        r"create a key with a higher",
        r"spend(?:ing)? (?:limit|cap)",
        r"余额|欠费|充值",
        r"(?:额度|配额|资源包|套餐).{0,6}(?:用完|用尽|耗尽|不足|到期|过期)",
    ),
    "not_billing": (  # a quota per minute or day, however much the text says of billing
        r"quota exceeded for (?:quota )?metric",
        r"\bretry (?:in|after) [\d.]+ ?s",
        r"^resource exhausted\b.*exceeded your current quota",  # Gemini, for its limits per minute and day
    ),
    "rate_limit": (
        r"rate[ _-]?(?:limit|quota|increased)",
        r"too many (?:requests|calls|concurrent)|too many tokens\b.{0,40}\b(?:wait|later|per)\b",
        r"(?<!insufficient )(?<!insufficient_)quota",
        r"resource[ _](?:has been )?exhausted",
        r"usage limit|exceeded (?:your|the) .{0,30}\busage\b|number of .{0,40}\b(?:requests|calls) exceed",
        r"(?:request|concurrency) limit|limit (?:requests|burst)",
        r"model_cooldown",
        r"(?:tokens|requests|calls) per (?:second|min|hour|day)|\b[rt]p[ms]\b",
        r"throttl",
        r"slow down",
        r"service limits?\b.{0,20}\bexceeded|request a (?:\w+ )?(?:limit|quota) increase",
        r"请求(?:过于|太|过)?(?:频繁|多|过快)|限流|限速",
        r"(?:速率|频率|并发|次数|流量|使用|调用).{0,8}(?:限制|上限|超限|超过|过高|过快)|限额",
    ),
    "context_overflow": (
        rf"{_CONTEXT}.{{0,60}}{_LONG}",
        rf"exceed\w*.{{0,60}}{_CONTEXT}",
        r"maximum (?:context|prompt|input) length|context length of only",
        r"context (?:window |length |size )?overflow",
        rf"{_INPUT}.{{0,60}}\b{_LONG}.{{0,60}}{_SIZE}",
        r"\b(?:prompt|input|messages?|context)\b.{0,40}\btoo (?:long|large)",
        rf"{_INPUT}.{{0,60}}\b(?:over|resulted in)\b.{{0,60}}{_SIZE}",
        r"\binputs?\b.{0,60}\bmust (?:be|have) (?:<=|less than|at most|fewer)",
        r"input token count\b.{0,40}\bonly supports",
        r"\bmax(?:imum)? tokens of \d+ exceeded|\btext (?:is )?too long",
        r"\btoken limit|tokens? > \d+|tokens? (?:count )?(?:length )?exceed",
        r"too many tokens\b(?!.{0,40}\b(?:wait|later|per|max tokens)\b)",
        r"\b(?:length|number) of (?:prompt|input)[ _]tokens\b.{0,40}\bmust be|cannot truncate to \d",
        r"range of input length|\b(?:max|maximum) (?:input|prompt) (?:characters|tokens)",
        r"\b(?:tokens|characters) too long",
        r"request_too_large|^\W*413\b",
        rf"(?:输入|提示词?|消息|文本|prompt).{{0,20}}{_LONG}",
        r"压缩上下文",
    ),
    "not_overflow": (
        r"rate.?limit|(?:tokens|requests) per (?:min|day)|\btp[md]\b|too many requests|throttl|quota|^\W*429\b",
        r"too small|requires? reasoning|array too long|number of .{0,40}\b(?:requests|calls) exceed",
    ),
    "content_filter": (
        r"content[ _](?:filter|policy|management|moderation)",
        r"(?:inappropriate|sensi?tive|harmful|prohibited|unsafe) (?:content|words?|information)",
        r"inspection failed|\b(?:input|output|prompt|text)\b.{0,20}sensitive\b",
        r"usage polic|violat\w*.{0,60}polic",
        r"flagged|invalid[ _]prompt",
        r"responsible ?ai",
        r"(?:safety|moderation|risk)[ _](?:filter|system|polic|settings?|control|check)",
        r"敏感|涉敏|违规|不安全|内容安全|审核",
    ),
    "key": _KEY_FAULTS,
    "auth": (
        *_KEY_FAULTS,
        r"log[ -]?in (?:has |is |was )?fail\w*",
        rf"\b{_KEY}\b.{{0,40}}\b(?:not valid|invalid|not found|expired|incorrect|missing|required)",
        r"\b(?:provide|pass|set|without|no)\b.{0,20}\bapi key",
        r"invalid token|token (?:has )?expired|\bexpired\b.{0,20}\btoken",
        r"authenticat|unauthori[sz]ed|not authori[sz]ed(?! to\b)|no (?:auth )?credentials|missing scopes",
        r"\b(?:certification|authori[sz]ation|verification|token) (?:is |was |has )?failed|token not match",
        r"鉴权|未授权|token.{0,10}(?:无效|错误|过期|失效)",
    ),
    "permission": (
        r"(?:organization|account|user)\b.{0,40}\b(?:must be|not) verified",
        r"(?:access|permission)[ _](?:is )?denied|forbidden|(?:insufficient|no) permissions?",
        r"do(?:es)?(?: not|n't) have (?:the )?(?:permission|access)",
        r"not (?:authori[sz]ed|allowed|permitted) to (?:access|use|call|perform|invoke|view)",
        r"no[ _]?auth(?:error|\b)|licc failed|illegal access",
        r"无权|权限不足|没有权限|未开通",
    ),
    "model_not_found": (
        r"(?:unknown|unsupported|invalid|no such|nonexistent)[ _]model(?! reference)\b|not[ _]found[ _]error",
        rf"{_MODEL}.{{0,80}}?(?: not|n't|n[o']t) (?:exist|(?:be )?found|loaded)|{_MODEL}.{{0,80}}?not_found",
        rf"{_MODEL}.{{0,80}}?(?:decommissioned|deprecated|retired|no longer (?:available|supported))",
        rf"{_MODEL}.{{0,80}}?\bnot (?:supported|available)(?! (?:with|when|by|in|for this))",
        rf"{_MODEL} (?:identifier|id|name)\b.{{0,20}}\binvalid|invalid model (?:identifier|id|name)\b",
        r"\bonly .{1,60} (?:is |are )?allowed\b.{0,30}\bmodel\b",
        r"\bendpoint\b.{0,60}\b(?:not found|does(?: not|n't) exist)",
        r"failed to load (?:the )?model|model (?:is |was )?unloaded",
        r"not a valid model|no endpoints found|no allowed providers|model\b.{0,80}\bnot supported by any provider",
        r"模型.{0,20}(?:不存在|未找到|已下线|无效)|(?:找不到|未知|不存在的?)模型",
    ),
    "timeout": (
        r"timed?[ -]?out",
        r"deadline[ _](?:exceeded|expired)",
        r"^(?:abort error )?\W*request (?:was )?aborted\W*$",
        r"超时",
    ),
    "overloaded": (
        r"overload",
        r"(?:at|over|exceed\w*|insufficient|out of|no) capacity|capacity (?:exceeded|limits?)",
        r"high (?:demand|traffic|load)",
        r"\b(?:currently|still) (?:being )?load(?:ing|ed)\b|^\W*loading model",
        rf"(?:server|service|system|engine|model) (?:is )?{_SOON}busy|queue (?:is )?full",
        rf"model (?:is )?{_SOON}unavailable|temporarily unavailable",
        r"繁忙|过载|负载|拥挤|访问量过大",
    ),
}


def kind_words(kind: str) -> str:
    """Return a type or code as words: ``Throttling.RateQuota`` → ``throttling rate quota``."""
    return _JOINTS.sub(" ", _CAMEL.sub(" ", kind)).strip().lower()


def says(family: str, words: str) -> bool:
    """Return true if ``words`` belong to a family."""
    return _pattern(family).search(words) is not None


@cache
def _pattern(
    family: str,
) -> re.Pattern[str]:  # compiled when a call fails: at a start it would cost 10 ms of CPU
    return re.compile("|".join(FAMILIES[family]), re.IGNORECASE | re.DOTALL)
