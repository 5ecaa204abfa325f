"""The public names of claw_config_sdk and their modules, one name a line: for type checkers and ``__init__.py``."""

from claw_config_sdk.choices import (
    DEFAULT as DEFAULT,
    parse_choice as parse_choice,
)
from claw_config_sdk.editor import (
    parse_value as parse_value,
    set_value as set_value,
    unset_value as unset_value,
)
from claw_config_sdk.findings import (
    config_findings as config_findings,
    file_of as file_of,
    labelled as labelled,
    names_one_of as names_one_of,
)
from claw_config_sdk.keys import (
    get_value as get_value,
    written_path as written_path,
)
from claw_config_sdk.locks import (
    Lock as Lock,
    lock_holder as lock_holder,
)
from claw_config_sdk.scenario import (
    Scenario as Scenario,
    probe_message as probe_message,
    sender_of as sender_of,
    takes_scenario as takes_scenario,
)
from claw_config_sdk.schema import (
    section_schema as section_schema,
)
from claw_config_sdk.sizes import (
    Size as Size,
)
from claw_config_sdk.state import (
    open_state as open_state,
)
from claw_config_sdk.times import (
    DailyTask as DailyTask,
    local_time as local_time,
    parse_time as parse_time,
)

__all__: list[str]
