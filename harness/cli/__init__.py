"""The command line: flags, files, screen."""
