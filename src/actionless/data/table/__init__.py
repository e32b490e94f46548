"""Tables with one state per row: Parquet, CSV and Arrow IPC files, read through Polars."""
