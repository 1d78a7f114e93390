"""First on the path of every process of vLLM 0.16.0 to 0.18.0 under torch 2.13: puts back what torch has dropped since.

`platforms/cpu.py` asks for these in each process, so also in the one that vLLM starts to look at a model's class.
"""

import torch

for _name in ("_is_amx_tile_supported", "_is_avx512_supported", "_is_avx512_bf16_supported"):
    if not hasattr(torch._C._cpu, _name):
        setattr(torch._C._cpu, _name, lambda: False)
