"""The fault agent: runs in a container of its own, standard library only, Python 3.11."""


class AgentError(Exception):
    """What was asked for could not be done; the message is one sentence for a person."""
