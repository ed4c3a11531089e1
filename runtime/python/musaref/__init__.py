"""The trusted side of a judgement: a task's reference, its inputs, its expected values and the comparison.

The modules, from the outside in:

| module | what it does |
|---|---|
| `server` | the request loop of docs/protocols.md §2 |
| `session` | opened tasks, their trials and caches |
| `scaling` | shrinks the constants of a task file until its work fits a budget |
| `source` | a task file as text with constants that can be replaced, executed into a namespace |
| `reference` | runs a `Model` in its own dtype and in float64 from a restored state |
| `distributions` | what random inputs look like in each trial |
| `compare`, `tolerance` | the verdict over one set of outputs, and every constant in it |
| `audit` | trivial candidates that must fail on a task before it is used |
| `trace`, `tree`, `errors` | operator counting, values ↔ JSON and files, named failures |
| `device` | the same on real hardware: everything stays in device memory |
"""
