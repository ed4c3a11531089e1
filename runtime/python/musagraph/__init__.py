"""What a task computes, as a graph of aten operators: for shape information, for telling equal tasks, for families.

    graph = trace_task(code)          # {"nodes": [...], "inputs": [...], "outputs": [...], "ops": {...}, ...}
    canonical_hash(graph)             # equal for tasks that compute the same, whatever their names, sizes and style

The graph is what torch's dispatcher is asked for while the task's module runs once, on tensors without memory (meta), so
full sizes cost nothing; where a task needs values, on its scaled sizes with real ones. Sizes that vary with the inputs'
come from a second run on symbolic sizes (torch.fx.experimental.symbolic_shapes, which torch.export rests on).
"""
