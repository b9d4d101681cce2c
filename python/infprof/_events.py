"""What the PyTorch profiler reports while somebody wants it: None, or a function. _triggers and _variables put theirs here."""

module_ended = None  # (info, module, inputs, output, ended_ns, took_ns, number of the step): a call on a sampled step
step_ended = None  # (step, seconds): any step
