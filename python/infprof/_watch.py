"""Stacks and variables that this process records of itself, switched on and off: by the program, its environment, or `infprof config`."""
import os
import sys

from infprof import _core, _settings, _start


def _period(text):
    from infprof._triggers import set_period

    return set_period(text)


def _triggers(text):
    from infprof._triggers import set_triggers

    return set_triggers(text)


def _variables(text):
    from infprof._variables import set_allowed

    return set_allowed(text)


SETTERS = {_core.period_setting: _period, _core.triggers_setting: _triggers, _core.variables_setting: _variables}


def switch(setting, text, source="program"):
    """ValueError: why not."""
    value = SETTERS[setting](text.strip())
    if source != "config" and value != "off" and os.environ.get("INFPROF_RING") != "0":
        _core.enable()
    _settings.say(setting, value, source)


def from_environment():
    """What goes wrong is a line on standard error, and the program runs on."""
    for name, setting in zip(_start.WATCHES, SETTERS):
        text = os.environ.get(name)
        try:
            if text:
                switch(setting, text, "environment")
        except Exception as error:
            print(f"infprof: {name}={text}: {error}", file=sys.stderr)


def enable_backtraces(period=None, **triggers):
    """Stacks of this process in table python.backtrace: of all threads each `period` seconds (0.1 where nothing is asked for), and by
    triggers: module="20ms", step=True, exception=True, signal="USR2". See docs/python.md."""
    if period is None and not triggers:
        period = "on"
    if period is not None:
        switch(_core.period_setting, str(period))
    if triggers:
        words = [key if value is True else f"{key}={value}" for key, value in triggers.items() if value not in (None, False)]
        switch(_core.triggers_setting, ",".join(words) or "off")


def disable_backtraces():
    """Stops all that enable_backtraces() has begun."""
    switch(_core.period_setting, "off")
    switch(_core.triggers_setting, "off")


def enable_variables(allowed):
    """Variables in table python.variables: of functions and modules that match PATTERN those whose names match NAME, as
    "PATTERN:NAME,NAME;PATTERN:NAME", on sampled steps of PyTorch and in stacks of enable_backtraces()."""
    switch(_core.variables_setting, allowed)


def disable_variables():
    """Records none from now on."""
    switch(_core.variables_setting, "off")
