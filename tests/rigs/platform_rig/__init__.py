"""A rig that tries to make a gateway fail, written from the documentation of the platforms and of nothing of claw's.

It starts real ``claw gateway run`` processes between services that it plays itself, and ends them at any moment, while
lines break in both directions and the services refuse what their documentation says they refuse.

``facts``
    The records of one run: questions, visible messages, HTTP calls, effects of tools, faults of requests.
``labels``
    The text of questions and of answers; every answer has the number of the model request that made it.
``judge``
    Counts for a run: lost, doubled, half, out of order, repeated. It reads only ``facts``.
``report``
    The table, the JSON document and the exit code.
``faults``, ``pace``
    Seeded faults of lines and responses; the rate limits of the platforms.
``model_service``
    A Chat Completions service that streams answers in parts and calls tools.
``tool_plugin``
    The plugin with the tools, which append to a file.
``telegram_service``, ``telegram_push``, ``telegram_methods``, ``telegram_types``
    The Bot API, also as it calls webhooks; its requests and updates are judged by python-telegram-bot.
``aiogram_judge``
    Judges them by aiogram, in an environment of its own: ``--aiogram PYTHON`` names its interpreter.
``discord_gateway``, ``discord_rest``, ``discord_objects``, ``discord_service``, ``discord_observer``
    The Discord gateway and REST API v10; a discord.py client reads along as a second bot.
``feishu_service``, ``feishu_messages``, ``feishu_cards``, ``feishu_push``, ``feishu_types``
    The Open API of Feishu with its signed and encrypted events; lark_oapi's classes judge requests, responses, events.
``http_callers``, ``relay``
    Programs that use the ``openai`` SDK, through a relay that cuts connections.
``gateway_process``
    One ``claw gateway run`` process: start, kill, stop.
``seeds``
    Storms of many seeds side by side; the sum of their results.
``world``, ``settling``
    A home with its services; waiting until all is answered.
``scenes``, ``large_scenes``, ``storm``
    Single faults at exact moments; floods and shortages; a run of kills and losses.

Run it with ``tests`` on the path: ``python -m rigs.platform_rig --kills 100 --seed 1 --channels telegram,http,discord``,
or ``--scenes WORD`` for scenes.

The test suite runs 300 kills (15 seeds of 20). All 10,000 are ``--kills 100 --seeds 0-99 --json FILE``: five storms run
for each processor, a finished seed appends its line to FILE, and the same command goes on with the seeds that FILE does
not have. Seeds may be shared out to machines (``0-49``, ``50-99``); ``--sum FILE FILE`` adds the files up. A kill takes
0.6 s of processor time: two processors needed 69 minutes.
"""
