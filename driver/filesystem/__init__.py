"""Safe work with files and folders that other programs may have written."""
