"""A function with variables of all kinds, which waits; prints what `backtrace --locals` is to say of each, as JSON."""
import json
import threading

never = threading.Event()


class Weird:
    """Whatever is asked of it, it fails: nothing of it may run."""
    def __repr__(self):
        raise SystemExit("repr ran")

    __str__ = __hash__ = __eq__ = __len__ = __iter__ = __repr__

    def __getattribute__(self, name):
        raise SystemExit("getattribute ran")


class Number(int):
    def __repr__(self):
        raise SystemExit("repr ran")


def wait(wanted):
    print(json.dumps(wanted), flush=True)
    never.wait()


def variables(argument, *rest, keyword=None, **others):
    zero, one, minus, big, small, huge = 0, 1, -1, 2 ** 64, -2 ** 30, 10 ** 300
    colossal = 1 << 10000
    yes, no, nothing = True, False, None
    half, tiny, infinite = 0.5, 1e-300, float("inf")
    whole = 3.0
    text, empty, quotes, lines = "hello", "", "it's", "a\nb\tc"
    wide, wider, emoji = "ä", "日本語", "🐍"
    long_text = "x" * 1000
    raw, raw_long = b"\x00ab'\xff", b"y" * 300
    pair, single, no_items = (1, "a"), (1,), ()
    items = [1, 2.5, "x", None, [1, 2], {"a": 1}, (1, 2, 3)]
    many = list(range(100))
    table = {"a": 1, "b": [1], 3: "c", "password": "hunter2"}
    removed = {i: i for i in range(20)}
    for i in range(18):
        del removed[i]
    no_table = {}
    few, fixed, no_set = {7}, frozenset({"q"}), set()
    weird, number, a_type, function = Weird(), Number(5), int, wait
    api_key, password, hf = "abc", 12345, "hf_abcdefghijklmnopqrstuvwxyz0123456789"
    line, url = b"Bearer sk-ant-zzSECRETzz0123456789", b"postgres://u:zzSECRETzz@db/x"
    command, raw_command = ["serve", "--api-key", "zzSECRETzz", "--port", 80], (b"--token", b"zzSECRETzz", b"x y")
    headers = {b"authorization": b"zzSECRETzz", b"host": b"h"}
    late = b"z" * 190 + b" hf_zzSECRETzz0123456789abcdefghijklmnop"
    captured = "in a cell"
    ended = 1
    del ended

    def inner():
        own = captured
        wanted = {
            "argument": "1", "rest": "(2, 3)", "keyword": "'k'", "others": "{'o': 4}",
            "zero": "0", "one": "1", "minus": "-1", "big": str(2 ** 64), "small": str(-2 ** 30), "huge": str(10 ** 300),
            "colossal": "<int of about 10020 bits>", "yes": "True", "no": "False", "nothing": "None",
            "half": "0.5", "tiny": "1e-300", "infinite": "inf", "whole": "3.0",
            "text": "'hello'", "empty": "''", "quotes": "'it\\'s'", "lines": "'a\\nb\\x09c'",
            "wide": "'ä'", "wider": "'日本語'", "emoji": "'🐍'", "long_text": "'" + "x" * 200 + "...'",
            "raw": "b'\\x00ab\\'\\xff'", "raw_long": "b'" + "y" * 200 + "...'",
            "pair": "(1, 'a')", "single": "(1,)", "no_items": "()",
            "items": "[1, 2.5, 'x', None, <list of 2>, <dict of 1>, <tuple of 3>]",
            "many": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 90 more]",
            "table": "{'a': 1, 'b': <list of 1>, 3: 'c', 'password': ***}", "removed": "{18: 18, 19: 19}",
            "no_table": "{}", "few": "{7}", "fixed": "frozenset({'q'})", "no_set": "set()",
            "weird": "<Weird at 0x%x>" % id(weird), "number": "<Number at 0x%x>" % id(number), "a_type": "<type at 0x%x>" % id(int),
            "function": "<function at 0x%x>" % id(wait),
            "api_key": "***", "password": "***", "hf": "'***'", "line": "b'Bearer ***'", "url": "b'postgres://***@db/x'",
            "command": "['serve', '--api-key', '***', '--port', 80]", "raw_command": "(b'--token', b'***', b'x y')",
            "headers": "{b'authorization': ***, b'host': b'h'}", "late": "b'" + "z" * 190 + " ***'",
            "captured": "'in a cell'", "i": "17",
        }
        wait({"variables": wanted, "inner": {"own": "'in a cell'"}})
    inner()


variables(1, 2, 3, keyword="k", o=4)
