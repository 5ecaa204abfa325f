"""The installation report of pip, for each of its versions."""

import pytest
from claw_admin.plugin_manager.plan import pin_from_report

SHA = "284e1fe43c227b7ee15850e75ac2a381935860e9cbfba6c6e1d68e6ad30d5df1"


@pytest.mark.parametrize(
    "archive",
    [{"hashes": {"sha256": SHA}, "hash": f"sha256={SHA}"}, {"hash": f"sha256={SHA}"}],
    ids=["pip 23.1 and newer", "pip 23.0, as in Debian 12"],
)
def test_the_hash_of_a_file_is_read_in_both_forms(archive):
    pin = pin_from_report(
        {
            "is_direct": True,
            "metadata": {"name": "acme", "version": "1.0"},
            "download_info": {"url": "file:///acme-1.0-py3-none-any.whl", "archive_info": archive},
        }
    )

    assert pin.sha256 == SHA
