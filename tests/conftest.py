"""What all tests share: how examples are drawn."""

from hypothesis import HealthCheck, settings

# How fast examples come says how busy the machine is, and nothing about what is tested. And a gate
# asks of each change the same: what is drawn anew each time is drawn at night.
settings.register_profile(
    "gate", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("night", parent=settings.get_profile("gate"), derandomize=False)
settings.load_profile("gate")
