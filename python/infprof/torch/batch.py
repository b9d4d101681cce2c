"""What a step works on, as far as the arguments of the outermost call show it: the shape of the tokens. With token ids of the shape
(sequences, tokens), one token a sequence is a step of decoding, more are a prefill; a step of training is one. Shapes whose meaning is
not known make a plain `forward`."""

PREFILL, DECODE, TRAIN, FORWARD = "prefill", "decode", "train", "forward"


MOST_KNOWN = 1024  # shapes of a model


def look(torch, module, args, kwargs, known):
    """(phase, shape as text, class of steps that are compared with each other). known: a dictionary of the model's own, for a tensor has
    to be asked for each thing that it knows, and after a step nothing of that is in the CPU's caches."""
    tensor = args[0] if args else None
    is_embedded = False
    if kwargs and not isinstance(tensor, torch.Tensor):
        tensor = kwargs.get("input_ids")
        if tensor is None:
            tensor = kwargs.get("inputs_embeds")
            is_embedded = tensor is not None
        if tensor is None:
            tensor = _first(torch.Tensor, (*args, *kwargs.values()))
    elif not isinstance(tensor, torch.Tensor):
        tensor = _first(torch.Tensor, args)
    if tensor is None:
        return FORWARD, None, (FORWARD, 0)
    is_training = module.training and torch.is_grad_enabled()
    key = tensor.shape, is_training, is_embedded
    found = known.get(key)
    if found is None:
        if len(known) >= MOST_KNOWN:
            known.clear()
        found = known[key] = _name(tensor, is_training, is_embedded)
    return found


def _name(tensor, is_training, is_embedded):
    shape = tuple(tensor.shape)
    size = 1
    for n in shape[:2] if is_embedded else shape:
        size *= n
    phase = FORWARD
    if is_training:
        phase = TRAIN
    elif is_embedded or (len(shape) == 2 and not tensor.is_floating_point()):
        phase = DECODE if shape[1] == 1 else PREFILL
    # Sizes within a factor of two of each other are near enough, and classes stay few.
    return phase, "x".join(map(str, shape)), (phase, size.bit_length())


def of_engine(args):
    """The same of vLLM's scheduler output: a decoding step has as many tokens as requests."""
    for arg in args:
        tokens, requests = getattr(arg, "total_num_scheduled_tokens", None), getattr(arg, "num_scheduled_tokens", None)
        if isinstance(tokens, int) and isinstance(requests, dict):
            phase = DECODE if tokens == len(requests) else PREFILL
            return phase, f"{len(requests)}x{tokens}", (phase, tokens.bit_length())
    return FORWARD, None, (FORWARD, 0)


def _first(cls, values):
    for value in values:
        if isinstance(value, cls):
            return value
        if isinstance(value, (tuple, list)) and value and isinstance(value[0], cls):
            return value[0]
        if isinstance(value, dict):
            tensor = value.get("input_ids")
            if isinstance(tensor, cls):
                return tensor
    return None
