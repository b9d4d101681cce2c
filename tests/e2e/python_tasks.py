"""A program of asyncio whose tasks wait in places that do not change: nested coroutines, asynchronous generators, gather, TaskGroup,
wait_for, tasks that await tasks, in two loops of two threads. Writes what Python says of each task into the file of the first argument, as
JSON; prints a line when all wait. Further arguments: how many tasks more, "uvloop", "python" (tasks of Python, not of C)."""
import asyncio
import asyncio.tasks
import gc
import json
import sys
import threading
import time

N_EXTRA = int(sys.argv[2]) if len(sys.argv) > 2 else 0
HOSTILE = "q\"uo\\te\n\x1b[31m\u202e\udc80 \U0001f40d"
WRAPPERS = ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper", "anext_awaitable")
KEPT = []


async def park(future):
    await future


async def nested(future, depth):
    if depth:
        return await nested(future, depth - 1)
    await park(future)


async def numbers(future):
    yield 1
    await park(future)
    yield 2


async def by_generator(future):
    async for _ in numbers(future):
        pass


async def by_anext(future):
    generator = numbers(future)
    await generator.__anext__()
    await generator.asend(None)


class Custom:
    def __init__(self, future):
        self.future = future

    def __await__(self):
        return (yield from self.future.__await__())


async def by_custom(future):
    await Custom(future)


async def by_wrapper(future):
    class Wrapped:
        def __await__(self):
            return park(future).__await__()
    await Wrapped()


async def by_lock(lock):
    async with lock:
        pass


async def by_gather(loop, future):
    await asyncio.gather(loop.create_task(park(future), name="child one"), asyncio.gather(park(future), park(future)), return_exceptions=True)


async def by_wait_for(future):
    await asyncio.wait_for(park(future), 100000)


async def by_wait(loop, future):
    await asyncio.wait([loop.create_task(park(future), name="waited one"), loop.create_task(park(future), name="waited two")])


async def by_shield(loop, future):
    await asyncio.shield(loop.create_task(park(future), name="shielded"))


async def by_group(future):
    async with asyncio.TaskGroup() as group:
        group.create_task(park(future), name="member one")
        group.create_task(nested(future, 2), name="member two")


async def by_task(task):
    await task


async def soon_done():
    pass


async def soon_failed():
    raise ValueError("it fails")


def start(loop, future, prefix):
    """All of them, in the loop that runs."""
    def make(coroutine, name):
        KEPT.append(loop.create_task(coroutine, name=prefix + name))
        return KEPT[-1]

    lock = asyncio.Lock()
    make(nested(future, 0), "flat")
    make(nested(future, 30), "deep")
    make(by_generator(future), "generator")
    make(by_anext(future), "anext")
    make(by_custom(future), "custom")
    make(by_wrapper(future), "wrapper")
    make(by_gather(loop, future), "gather")
    make(by_wait_for(future), "wait_for")
    make(by_wait(loop, future), "wait")
    make(by_shield(loop, future), "shield")
    inner = make(park(future), "inner")
    make(by_task(inner), "outer")
    make(by_task(inner), "outer two")
    make(asyncio.sleep(100000), "sleep")
    make(park(future), HOSTILE)
    make(soon_done(), "done")
    make(soon_failed(), "failed")
    make(park(loop.create_future()), "cancelled")
    if hasattr(asyncio, "TaskGroup"):
        make(by_group(future), "group")
    if hasattr(asyncio, "eager_task_factory") and "python" not in sys.argv:
        KEPT.append(asyncio.Task(nested(future, 1), loop=loop, name=prefix + "eager", eager_start=True))
    return lock


def first_of(thing, *names):
    return next((getattr(thing, name) for name in names if getattr(thing, name, None) is not None), None)


def chain(task):
    """Innermost first: (function, file, line), by what Python says of each suspended frame."""
    frames, at = [], task.get_coro()
    while at is not None:
        frame = first_of(at, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            frames.append([frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno])
            at = first_of(at, "cr_await", "gi_yieldfrom", "ag_await")
        elif type(at).__name__ in WRAPPERS:
            at = next((x for x in gc.get_referents(at) if type(x).__name__ in ("coroutine", "generator", "async_generator")), None)
        else:
            break
    return frames[::-1]


def state(task):
    if task.cancelled():
        return "cancelled"
    if task.done():
        return "failed" if task.exception() else "done"
    return "running" if task is asyncio.current_task(task.get_loop()) else "waiting"


def say(task):
    return {"name": task.get_name(), "state": state(task), "tid": threading.get_native_id(), "frames": [] if task.done() else chain(task)}


async def main(prefix, ready, said):
    loop = asyncio.get_running_loop()
    if "python" in sys.argv:
        loop.set_task_factory(lambda loop, coroutine, **words: asyncio.tasks._PyTask(coroutine, loop=loop, **words))
    future = loop.create_future()
    lock = start(loop, future, prefix)
    await lock.acquire()
    KEPT.append(loop.create_task(by_lock(lock), name=prefix + "lock"))
    for i in range(N_EXTRA):
        KEPT.append(loop.create_task(nested(future, 3), name=f"extra {i}"))
    for _ in range(20):
        await asyncio.sleep(0)
    next(task for task in KEPT if task.get_name() == prefix + "cancelled").cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    # all_tasks() leaves out those that are done.
    said.extend(say(task) for task in set(asyncio.all_tasks(loop)) | {task for task in KEPT if task.get_loop() is loop})
    ready.release()
    if threading.current_thread() is threading.main_thread():
        ready.acquire()
        ready.acquire()
        with open(sys.argv[1], "w") as file:
            json.dump(said, file)
        print("ready", flush=True)
    while True:
        time.sleep(1000)  # sleep: the task that runs, until the test ends it


def run(*words):
    if "uvloop" in sys.argv:
        import uvloop
        loop = uvloop.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(main(*words))
    else:
        asyncio.run(main(*words))


if __name__ == "__main__":
    released, answers = threading.Semaphore(0), []
    threading.Thread(target=run, args=("second ", released, answers), daemon=True).start()
    run("", released, answers)
