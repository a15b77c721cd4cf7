# What differs between Kafka versions; the only place that knows. Sourced by the scripts beside it.
#
# Sets, for the version in $1:
#   scala            Scala version in the name of the core artifact
#   logging          Maven coordinates of the logging binding: most jars bring none, and without one
#                    a broker has no log, and an old ZooKeeper does not start
#   logging_flag     the JVM flag that names our logging configuration
#   managed          Maven coordinates that replace what the jars ask for
#   additional       further Maven coordinates
#   java_flags       what this generation needs on a Java that is younger than it
#   storage_main     class that formats a KRaft log directory
#   has_kraft, has_zookeeper   1 or 0: the metadata modes
versions_for() {
    local major minor number
    IFS=. read -r major minor _ <<<"$1"
    number=$((major * 100 + minor))
    storage_main=kafka.tools.StorageTool
    has_kraft=$((number >= 303))
    has_zookeeper=$((number < 400))
    managed=
    additional=
    java_flags=()
    if ((number < 100)); then
        scala=2.11
    elif ((number < 204)); then
        scala=2.12
    else
        scala=2.13
    fi
    if ((number >= 400)); then
        logging="org.apache.logging.log4j:log4j-slf4j-impl:2.24.3 org.apache.logging.log4j:log4j-core:2.24.3"
        logging_flag=-Dlog4j2.configurationFile=/opt/kafka-chaos/log4j2.properties
    else
        # The same classes as log4j 1.2, which itself is left out.
        logging="org.slf4j:slf4j-reload4j:1.7.36 ch.qos.reload4j:reload4j:1.2.25"
        logging_flag=-Dlog4j.configuration=file:/opt/kafka-chaos/log4j.properties
    fi
    if ((number < 300)); then
        # Buffers are freed and selectors patched by reflection, and an old ZooKeeper would manage
        # logging classes that our binding has not.
        java_flags=(--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED
            --add-opens=java.base/sun.nio.ch=ALL-UNNAMED -Dzookeeper.jmx.log4j.disable=true)
    fi
    if ((number < 200)); then
        # Java 11 threw javax.xml.bind out.
        additional=javax.xml.bind:jaxb-api:2.3.1
    elif ((number < 205)); then
        # The clients 3.4.13 to 3.5.7 cannot read host names on Java 14 and later (ZOOKEEPER-3779).
        managed="org.apache.zookeeper:zookeeper:3.5.8 org.apache.zookeeper:zookeeper-jute:3.5.8"
        additional="org.apache.zookeeper:zookeeper-jute:3.5.8"
    fi
}
