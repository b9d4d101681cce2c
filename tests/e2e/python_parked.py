"""A Python program whose threads wait in places that do not change: in generators, comprehensions, methods, lambdas, C that calls
Python. SIGUSR1 writes the stacks of all threads into the file of the first argument, by faulthandler. Prints its thread count when all wait."""
import ctypes
import faulthandler
import functools
import signal
import sys
import threading
import time

N_EXTRA = int(sys.argv[2]) if len(sys.argv) > 2 else 0
out = open(sys.argv[1], "w")
faulthandler.register(signal.SIGUSR1, file=out, all_threads=True)
waiting = threading.Semaphore(0)
never = threading.Event()


def park():
    waiting.release()
    never.wait()


def recurse(n):
    if n:
        recurse(n - 1)
    else:
        park()


class Model:
    def forward(self):
        return [self.layer(i) for i in range(3)]

    def layer(self, i):
        park()
        return i

    @staticmethod
    def fixed():
        def inner():
            park()
        inner()


def numbers():
    for i in range(3):
        park()
        yield i


def by_generator():
    return sum(numbers())


def by_lambda():
    return (lambda: park())()


def by_sort():
    return sorted([3, 1, 2], key=lambda x: park())


def by_reduce():
    return functools.reduce(lambda a, b: park(), [1, 2, 3])


def by_callback():
    """libc's qsort calls Python through libffi."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    compare = kind(lambda a, b: park() or 0)
    ctypes.CDLL(None).qsort((ctypes.c_int * 4)(4, 3, 2, 1), 4, 4, compare)


async def inner_coroutine():
    park()


async def outer_coroutine():
    await inner_coroutine()


def by_coroutine():
    outer_coroutine().send(None)


class Weird:
    def __getattr__(self, name):
        park()

    def __add__(self, other):
        park()


def by_attribute():
    Weird().something


def by_operator():
    return Weird() + 1


PLACES = [lambda: recurse(40), Model().forward, Model.fixed, by_generator, by_lambda, by_sort, by_reduce, by_callback, by_coroutine,
          by_attribute, by_operator]
for target in PLACES + [park] * N_EXTRA:
    threading.Thread(target=target, daemon=True).start()
for _ in range(len(PLACES) + N_EXTRA):
    waiting.acquire()
time.sleep(0.2)  # sleep: the last of them is about to wait
print(len(PLACES) + N_EXTRA + 1, flush=True)
while True:
    time.sleep(1000)  # sleep: until the test ends it
