"""A Kafka cluster in containers: started, asked, broken, healed, removed."""
