"""``channels.http`` and ``gateway``: the settings of the listener, its address and its token."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Literal, Self

from claw import ChannelConfig, Secret, Section, is_loopback
from claw.runtime import section_default, validation_error
from pydantic import Field, model_validator

from claw_http.agent_request import MAX_TEXT_CHARS
from claw_http.origins import listening_address

CALLER = "api"
"""The stable id of all callers with the gateway's token."""


class HttpSettings(ChannelConfig):
    """``channels.http``. Whoever has ``gateway.auth.token`` may write: his id is ``api``.

    He is no owner, unless ``owners`` names ``http:api``.
    """

    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = Field(
        "allowlist", description="disabled takes the API away and leaves the webhooks."
    )
    allow_from: tuple[str, ...] = Field((CALLER,), description="Leave it: api is who has the token.")
    hosts: tuple[str, ...] = Field(
        (), description="Names by which callers reach the API, beside localhost and those of allowOrigins."
    )
    ignore_fields: tuple[str, ...] = Field(
        (),
        description="Fields of a request that are ignored instead of refused, such as temperature.",
    )
    caller_instructions: Literal["refuse", "ignore", "allow"] = Field(
        "refuse", description="System messages of callers: allow adds them to the end of the agent's prompt."
    )
    max_text_chars: int = Field(
        MAX_TEXT_CHARS, gt=0, description="Characters that all texts of a request may have together."
    )
    answer_seconds: float = Field(600, gt=0, description="How long a caller waits for an answer.")

    @model_validator(mode="after")
    def _each_request_has_its_answer(self) -> Self:
        written = self.queue.model_fields_set if self.queue else ()
        if self.queue and "mode" in written and self.queue.mode not in ("followup", "interrupt"):
            raise ValueError(
                f"a request waits for its own answer, and {self.queue.mode} answers several at once. "
                "Take queue.mode followup or interrupt"
            )
        return self

    @property
    def admits_callers(self) -> bool:
        """True if a caller who has the token is admitted."""
        if self.dm_policy == "open":
            return True
        return self.dm_policy != "disabled" and bool({CALLER, f"http:{CALLER}"} & set(self.allow_from))


_PLACEHOLDERS = re.compile(
    r"(change.?me|example|placeholder|secret|password|token|test|todo|your.*|x+|<.*>|1234.*|admin|default)",
    re.I,
)
MIN_TOKEN_CHARS = 16


class GatewayAuth(Section):
    """Authentication of callers of the gateway."""

    mode: Literal["token", "none"] = Field(
        "token",
        description="none is refused where the network reaches bind; the API needs a token all the same.",
    )
    token: Secret | None = Field(
        None,
        description="What callers of the API must send; 16 random characters or more. None = all are refused.",
    )


class GatewaySettings(Section):
    """``gateway``: the process that serves channels."""

    bind: str = Field("127.0.0.1", description="Address to listen on; open ones need a token.")
    port: int = Field(18789, ge=0, le=65535, description="Port to listen on; 0 = any free one.")
    auth: GatewayAuth = section_default()
    allow_origins: tuple[str, ...] = Field((), description="Web pages that may call.")
    trusted_proxies: tuple[str, ...] = Field(
        (), description="Addresses or networks of proxies whose X-Forwarded-For names the caller."
    )

    @property
    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of the trusted proxies."""
        return tuple(ip_network(one, strict=False) for one in self.trusted_proxies)

    @model_validator(mode="after")
    def _proxies_are_networks(self) -> "GatewaySettings":
        for one in self.trusted_proxies:
            try:
                ip_network(one, strict=False)
            except ValueError:
                fix = "Write an address or a network, such as 127.0.0.1 or 10.0.0.0/8"
                raise validation_error(
                    "{value} is no address", fix, at=("trustedProxies",), value=one
                ) from None
        return self

    @model_validator(mode="after")
    def _bind_is_no_number_or_port(self) -> "GatewaySettings":
        address = listening_address(self.bind)
        try:
            ip_address(address.partition("%")[0])
        except ValueError:  # a name is resolved when the listener starts
            if not address or re.search(r"[:/\s]|\A[\d.]+\Z", address):
                fix = "Write an address such as 127.0.0.1; the port is gateway.port"
                raise validation_error("{value} is no address", fix, at=("bind",), value=self.bind) from None
        return self

    @model_validator(mode="after")
    def _origins_match_headers(self) -> "GatewaySettings":
        for index, one in enumerate(self.allow_origins):
            if one != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s?#]+/*", one, re.I):
                fix = "Write scheme and host without a path, such as https://app.example.com"
                at = ("allowOrigins", index)
                raise validation_error("{value} is no origin, so it matches no page", fix, at=at, value=one)
        return self

    @model_validator(mode="after")
    def _open_bind_needs_token(self) -> "GatewaySettings":
        token = self.auth.token
        if not is_loopback(listening_address(self.bind)):
            if self.auth.mode == "none" or token is None:
                fix = "Set gateway.auth.token, or bind to loopback (127.0.0.1)"
                open_to_all = "{bind} is reachable from the network and no token is set"
                raise validation_error(open_to_all, fix, at=("auth",), bind=self.bind)
            _check_token(token)
        if "*" in self.allow_origins and (self.auth.mode == "none" or not token):
            problem = (
                "every web origin (*) is allowed and no token is set: any web page could control the gateway"
            )
            raise validation_error(
                problem, "Name the origins, or set gateway.auth.token", at=("allowOrigins",)
            )
        return self


def is_weak(token: Secret) -> bool:
    """Return true for a placeholder or a token that is too short; one whose variable is not set is not judged.

    :raises ConfigError: its file cannot be read.
    """
    text = "" if token.missing else token.reveal()
    return not token.missing and bool(_PLACEHOLDERS.fullmatch(text) or len(text) < MIN_TOKEN_CHARS)


def _check_token(token: Secret) -> None:
    at = ("auth", "token")
    if token.empty:
        raise validation_error(
            "the token is empty", "Write a long random token, or a reference to one", at=at
        )
    if is_weak(token):
        fix = "Use at least {count} random characters"
        raise validation_error(
            "the token is weak: a placeholder, or too short", fix, at=at, count=MIN_TOKEN_CHARS
        )
