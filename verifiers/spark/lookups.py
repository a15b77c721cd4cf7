"""Fewer messages to the JVM: a class, and each of its static methods, is looked up once.

py4j asks the JVM for a class and for its method whenever our code names them. For a name that is
not qualified, as PySpark's `functions`, the JVM then searches all its jars for classes that are
not there. The plans of a short verification name some 2,400 of them: that took a third of its time.
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView
from pyspark import SparkContext


class _KnownClass(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the class has)
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


class _KnownClasses(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever Java has)
        found = super().__getattr__(name)
        if isinstance(found, JavaClass):
            found = _KnownClass(found._fqn, found._gateway_client)
            self.__dict__[name] = found
        return found


def remember_lookups(context: SparkContext) -> None:
    """Let the context's view of the JVM remember the classes that it was asked for."""
    jvm: Any = context._jvm
    if type(jvm) is JVMView:
        jvm.__class__ = _KnownClasses
