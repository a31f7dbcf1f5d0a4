"""Where outputs lie, and how they are written: atomic, durable, hashed, sealed."""
