"""The reference runner on real hardware: inputs, expected values and comparison stay in the device's memory.

| module | what it does |
|---|---|
| `task` | a task whose reference runs on a device: trials, timed calls, their verdicts |
| `arena` | the one block of device memory that the candidate's process maps; guard zones and poison |
| `place` | the mode in which all tensors of task code go to the device |
| `expected` | expected values and their budgets, compared tile by tile |
| `tiles` | reductions over tensors of any size without temporaries of their size |
| `baseline` | how long torch itself takes, eager and compiled |
| `facts` | what the device is, and how much of its memory is free |

Everything takes a `torch.device`; with "cpu" (`"device":"host"` in the protocol) the same code runs without a GPU, the arena
is a file and clocks are the host's. That is for tests.
"""
