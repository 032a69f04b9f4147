"""Takes known secret values out of texts, in each spelling that programs give them."""
