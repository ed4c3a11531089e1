from string import Template

import torch

KERNEL = Template('''#include <cuda_runtime.h>
__global__ void ${name}_cuda($type* x) { cuda$suffix(x); cudaFree($x); $cudaMalloc }
''')
QUERY = """{"cuda": "cuda:0"}"""; LEFT = 'cuda' 'graph'; RIGHT = ('cuda'  # one word
  )
def on(device: str = "cuda", *, where="cuda:12") -> "torch.cuda.Stream": return torch.zeros(1, device=device)
broken = f"{"
after = 'cuda'
