"""The plug-in of an installation that was made before it lay in kafka_chaos."""

pytest_plugins = ["kafka_chaos.pytest_plugin"]
