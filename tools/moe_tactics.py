"""Which rows of TensorRT-LLM's experts may have run in a tile that nothing had chosen, by how their collector tunes.

aiconfigurator's collector/trtllm/collect_moe.py keeps the tactics of a case (a type, a model, tp, ep and a routing, all token
counts) in a file `{type}_{H}_{I/tp}_{E/ep}` with the rank behind it. A case whose name begins an existing file's loads that and
tunes nothing. TensorRT-LLM finds a tactic by top-k, tp, ep and the weights' shape (MoERunner.unique_id(),
custom_ops/torch_custom_ops.py): with another case's file it finds none and runs the first tile of its list. Which case came first
is by a shuffle of all, so that names say who may be slow, not who is.
"""

# (H, I, top-k, E): models whose rows are in the tables, and two of the collector's list (cases/models) whose rows are not.
LISTED_ELSEWHERE = {(5120, 8192, 1, 16), (6144, 16384, 2, 8)}  # Llama 4 Scout, Mixtral 8x22B
TENSOR_RANKS = [1 << i for i in range(6)]
EXPERT_RANKS = [1 << i for i in range(9)]


def name(hidden, width, experts, tp, ep):
    return f"{hidden}_{width // tp}_{experts // ep}"


class TacticFiles:
    """Of one table; `models`: (H, I, top-k, E) of its rows."""

    def __init__(self, models):
        self.cases = {}
        for hidden, width, topk, experts in set(models) | LISTED_ELSEWHERE:
            for tp in TENSOR_RANKS:
                for ep in EXPERT_RANKS:
                    if tp * ep <= EXPERT_RANKS[-1] and width % tp == 0 and experts % ep == 0:
                        key = (topk, tp, ep, experts // ep)
                        self.cases.setdefault(name(hidden, width, experts, tp, ep), set()).add(key)

    def shared(self, hidden, width, topk, experts, tp, ep):
        """Whether another case's file may be loaded for this one."""
        own, key = name(hidden, width, experts, tp, ep), (topk, tp, ep, experts // ep)
        return any(keys - {key} for other, keys in self.cases.items() if other.startswith(own))
