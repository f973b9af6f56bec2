"""Text form of models: JSON whose expressions are infix text.

`grammar` reads an expression, `construct` makes it with SymPy and refuses what would not end;
`writer` writes one; `scalars` names the functions of both. `model` is the form of a model as a
whole, `lookups` that of tables and of functions of users in it, `document` that of the file. Text
is parsed, never evaluated.
"""
