"""All calls to a device: its caching allocator's counters and its events. Nothing here waits for a device, and none is initialised.
Tests put a fake of this class into start()."""
MIB = 1 << 20


class Devices:
    def __init__(self, torch):
        self._torch = torch
        self._free = {}  # device: events that may be used again

    def is_ready(self):
        """The program itself uses its GPU already."""
        try:
            return self._torch.cuda.is_initialized()
        except Exception:
            return False

    def is_of(self, device):
        return device is not None and device.startswith("cuda")

    def is_capturing(self):
        """The program makes a CUDA graph in this thread: an event would become a part of it."""
        try:
            return self._torch.cuda.is_current_stream_capturing()
        except Exception:
            return False

    def memory(self, device):
        """(allocated, most allocated, cached, most cached) in MiB; None: not known."""
        try:
            stats = self._stats(device)
            allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
            return allocated["current"] / MIB, allocated["peak"] / MIB, reserved["current"] / MIB, reserved["peak"] / MIB
        except Exception:
            return None

    def _stats(self, device):
        # memory_stats() makes 60 names of the same numbers, in ten times the time.
        number = int(device.partition(":")[2] or 0)
        nested = getattr(self._torch.cuda.memory, "memory_stats_as_nested_dict", None)
        return nested(number) if nested else self._torch._C._cuda_memoryStats(number)

    def stamp(self, device):
        """An event that the device reaches after all that it was given before; None: not possible here."""
        try:
            if self.is_capturing():
                return None
            free = self._free.get(device)
            event = free.pop() if free else self._torch.cuda.Event(enable_timing=True)
            event.record(self._torch.cuda.current_stream(device))
            return event
        except Exception:
            return None

    def is_reached(self, event):
        return event.query()

    def seconds(self, begin, end):
        """Between two events that were reached."""
        return begin.elapsed_time(end) / 1000

    def reuse(self, device, events):
        self._free.setdefault(device, []).extend(events)
