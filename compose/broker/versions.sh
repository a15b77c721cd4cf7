# What differs between Kafka versions; the only place that knows. Sourced by the scripts beside it.
#
# Sets, for the version in $1:
#   scala            Scala version in the name of the core artifact
#   logging          Maven coordinates of the logging binding: the jars bring none, and without one
#                    a broker has no log
#   logging_flag     the JVM flag that names our logging configuration
#   storage_main     class that formats a KRaft log directory
#   topics_main      class that creates topics
versions_for() {
    local major=${1%%.*}
    scala=2.13
    storage_main=kafka.tools.StorageTool
    if (( major >= 4 )); then
        logging="org.apache.logging.log4j:log4j-slf4j-impl:2.24.3 org.apache.logging.log4j:log4j-core:2.24.3"
        logging_flag=-Dlog4j2.configurationFile=/opt/kafka-chaos/log4j2.properties
    else
        logging="org.slf4j:slf4j-reload4j:1.7.36 ch.qos.reload4j:reload4j:1.2.25"
        logging_flag=-Dlog4j.configuration=file:/opt/kafka-chaos/log4j.properties
    fi
    case $1 in
        3.[0-5].*) topics_main=kafka.admin.TopicCommand ;;
        *) topics_main=org.apache.kafka.tools.TopicCommand ;;
    esac
}
