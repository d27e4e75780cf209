"""The rooms of file formats: one reader each, which adds the rows of a file to a collector, block by block.

A reader takes the path of a file, a `collector.RowCollector` and, where the format leaves it open, the place of the labels;
it returns `collector.Contents`, and raises a `DataError` that names what is wrong by line, row or column.

`svmlight` and `csv` read text, plain or compressed; `archive` reads NumPy's files; `parquet` reads tables through
pyarrow. `detect` finds the format of a file, `streams` cuts text into blocks of lines, `columns` finds the labels of a
table, and `collector` gathers rows in memory or on disk.
"""
