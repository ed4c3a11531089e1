"""JSON lines of verdicts to one Parquet file, for `musacoder store export --format parquet`.

    python verdicts_to_parquet.py VERDICTS.jsonl VERDICTS.parquet     # needs pyarrow; exit status 4 without it

Columns as in the CSV form, the common ones typed; `verdict` is the whole verdict as JSON text.
"""

import json
import sys

ROWS = 2000  # a row group


def columns(pa):
    text, number = pa.string(), pa.float64()
    return {
        "key": text, "stored_at": pa.timestamp("s", tz="UTC"), "task": text, "task_hash": text, "candidate_hash": text,
        "backend": text, "gpu": text, "policy": text, "status": text, "verified": pa.bool_(), "q": number, "reward": number,
        "speedup_eager": number, "speedup_compile": number, "seconds": number, "cause": text, "verdict": text,
    }  # fmt: skip


def row_of(line, names):
    verdict = json.loads(line)
    row = {name: verdict.get(name) for name in names}
    row["key"] = verdict.get("row_key")
    row["verified"] = verdict.get("status") == "ok"
    row["seconds"] = (verdict.get("seconds") or {}).get("total")
    row["verdict"] = line.strip()
    return row


def main():
    source, target = sys.argv[1:]
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        print(f"{error}: Parquet needs pyarrow; {sys.executable} -m pip install pyarrow", file=sys.stderr)
        return 4
    types = columns(pa)
    schema = pa.schema(list(types.items()))
    with (
        open(source, encoding="utf-8") as lines,
        pq.ParquetWriter(target, schema, compression="zstd") as writer,
    ):
        rows = []

        def flush():
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            rows.clear()

        for line in lines:
            rows.append(row_of(line, types))
            if len(rows) == ROWS:
                flush()
        if rows:
            flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
