/* dialect_table.h - as an API of its own: the words vanish, what is left is the lines of
 * dialect_table_begin.h. */
#define FUNCTION static
#define EXACT
