"""For authors of claw channels: splitting of texts, edit-in-place streams, HTTP routes.

Nothing is imported before it is asked for.
"""

from claw import add_translations, lazy_names

_NAMES = {
    "account_facts": "account_fact",
    "edit_stream": "EditStream",
    "fates": "FateInbox MessageFate",
    "optional_methods": "OptionalChannelMethods",
    "routes": "WebAnswer WebRequest WebRoute",
    "sent_messages": "SentSearch",
    "splitting": "BlockSplitter split_text text_width",
}
__all__, __getattr__, __dir__ = lazy_names(
    __name__, {f"{__name__}.{module}": names for module, names in _NAMES.items()}
)

add_translations(__name__)
