"""The rules of adequacy, one a file."""
