// A library whose folder has no source yet still needs one translation unit.
