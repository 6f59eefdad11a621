/* dialect_table_end.h - nothing: the line is all. */
