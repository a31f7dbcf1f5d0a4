"""Base models of the generated world, from scratch: tokenizer, scripted traces, fitting."""
