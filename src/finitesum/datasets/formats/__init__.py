"""The rooms of file formats: one reader each, which adds the rows of a file to a collector, block by block.

`svmlight` and `csv` read text, plain or compressed; `archive` reads NumPy's files; `parquet` reads tables through
pyarrow. `detect` finds the format of a file, `streams` cuts text into blocks of lines, `columns` finds the labels of a
table, and `collector` gathers rows in memory or on disk.
"""
