"""Functions whose calls are spans. A generator's span is the innermost one only while the generator runs, not while it waits for its
user, whose own spans are no parts of it."""
import functools

GENERATOR, COROUTINE, ITERABLE_COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200  # co_flags; importing inspect takes 10 ms


def flags_of(function):
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code.co_flags if code else 0


def decorate(make, name, attributes, function):
    """make(name, **attributes): a new span."""
    attributes = attributes or {}
    flags = flags_of(function)
    if flags & ASYNC_GENERATOR:
        async def wrapper(*args, **kwargs):
            span = make(name, **attributes)._begin()
            generator = function(*args, **kwargs)
            call, argument = generator.asend, None
            try:
                while True:
                    span._resume()
                    try:
                        item = await call(argument)
                    except StopAsyncIteration:
                        break
                    finally:
                        span._wait()
                    try:
                        call, argument = generator.asend, (yield item)
                    except GeneratorExit:
                        span._resume()
                        await generator.aclose()
                        raise
                    except BaseException as error:
                        call, argument = generator.athrow, error
            except BaseException as error:
                span.__exit__(type(error), error, None)
                raise
            span.end()
    elif flags & GENERATOR and not flags & ITERABLE_COROUTINE:
        def wrapper(*args, **kwargs):
            span = make(name, **attributes)._begin()
            generator = function(*args, **kwargs)
            call, argument = generator.send, None
            try:
                while True:
                    span._resume()
                    try:
                        item = call(argument)
                    except StopIteration as end:
                        value = end.value
                        break
                    finally:
                        span._wait()
                    try:
                        call, argument = generator.send, (yield item)
                    except GeneratorExit:
                        span._resume()
                        generator.close()
                        raise
                    except BaseException as error:
                        call, argument = generator.throw, error
            except BaseException as error:
                span.__exit__(type(error), error, None)
                raise
            span.end()
            return value
    elif flags & COROUTINE:
        async def wrapper(*args, **kwargs):
            with make(name, **attributes):
                return await function(*args, **kwargs)
    else:
        def wrapper(*args, **kwargs):
            with make(name, **attributes):
                return function(*args, **kwargs)
    return functools.wraps(function)(wrapper)
