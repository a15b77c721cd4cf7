import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Kafka's own Java clients as a client under test: docs/client-protocol.md. */
public final class KafkaChaosClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false);
    private static final BlockingQueue<JsonNode> ASKED = new LinkedBlockingQueue<>();

    private static KafkaProducer<byte[], byte[]> producer;
    private static KafkaConsumer<byte[], byte[]> consumer;
    private static boolean isInitialized;
    private static boolean tellsPositions;
    /** What a poll brought and nobody was given yet: a poll of Java's has no limit of its own. */
    private static final ArrayDeque<ConsumerRecord<byte[], byte[]>> LEFT = new ArrayDeque<>();

    public static void main(String[] arguments) throws Exception {
        Thread listener = new Thread(KafkaChaosClient::listen, "listener");
        listener.setDaemon(true);
        listener.start();
        while (true) {
            handle(ASKED.take());
        }
    }

    /** The harness is gone when our input ends: so are we, without a word to the cluster. */
    private static void listen() {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            String line;
            while ((line = lines.readLine()) != null) {
                ASKED.add(JSON.readTree(line));
            }
        } catch (IOException error) {
            System.err.println(error);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void handle(JsonNode request) {
        long id = request.path("id").asLong();
        try {
            ObjectNode answer = answer(id, request);
            if (answer != null) {
                say(id, answer);
            }
        } catch (Exception error) {
            say(id, failed(error));
        }
    }

    private static ObjectNode answer(long id, JsonNode request) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        Duration limit = Duration.ofMillis(request.path("timeout_ms").asLong(10_000));
        switch (request.path("op").asText()) {
            case "open":
                open(request);
                return answer.put("client", "java").put("version", AppInfoParser.getVersion());
            case "produce":
                produce(id, request);
                return null;
            case "init_transactions":
                if (!isInitialized) {
                    producer.initTransactions();
                    isInitialized = true;
                }
                return answer;
            case "begin_transaction":
                producer.beginTransaction();
                return answer;
            case "commit_transaction":
                producer.commitTransaction();
                return answer;
            case "abort_transaction":
                producer.abortTransaction();
                return answer;
            case "send_offsets":
                JsonNode group = request.path("group");
                producer.sendOffsetsToTransaction(
                        offsets(request.path("offsets")),
                        new ConsumerGroupMetadata(
                                group.path(0).asText(),
                                group.path(1).asInt(),
                                group.path(2).asText(),
                                Optional.ofNullable(group.path(3).textValue())));
                return answer;
            case "assign":
                assign(request.path("partitions"));
                return answer;
            case "subscribe":
                consumer.subscribe(texts(request.path("topics")), new Moves());
                return answer;
            case "seek":
                seek(request.path("partition"));
                return answer;
            case "poll":
                poll(id, request.path("max").asInt(), limit, answer);
                return answer;
            case "commit":
                return commit(id, request, answer);
            case "committed":
                Set<TopicPartition> asked = new HashSet<>(places(request.path("partitions")));
                Map<TopicPartition, OffsetAndMetadata> known = consumer.committed(asked, limit);
                ArrayNode told = answer.putArray("offsets");
                for (TopicPartition place : asked) {
                    OffsetAndMetadata offset = known.get(place);
                    add(told, place).add(offset == null ? null : offset.offset());
                }
                return answer;
            case "position":
                ArrayNode positions = answer.putArray("offsets");
                for (TopicPartition place : places(request.path("partitions"))) {
                    add(positions, place).add(position(place));
                }
                return answer;
            case "ends":
                TopicPartition place = place(request.path("partition"));
                Set<TopicPartition> alone = Collections.singleton(place);
                answer.put("low", consumer.beginningOffsets(alone, limit).get(place));
                return answer.put("high", consumer.endOffsets(alone, limit).get(place));
            case "partitions":
                ArrayNode numbers = answer.putArray("partitions");
                for (PartitionInfo info : consumer.partitionsFor(request.path("topic").asText(), limit)) {
                    numbers.add(info.partition());
                }
                return answer;
            case "group_metadata":
                ConsumerGroupMetadata own = consumer.groupMetadata();
                answer.putArray("group")
                        .add(own.groupId())
                        .add(own.generationId())
                        .add(own.memberId())
                        .add(own.groupInstanceId().orElse(null));
                return answer;
            case "close":
                if (producer != null) {
                    producer.close(limit);
                }
                if (consumer != null) {
                    Moves.isClosing = true;
                    consumer.close();
                }
                return answer;
            default:
                throw new IllegalArgumentException("no op " + request.path("op").asText());
        }
    }

    private static void open(JsonNode request) {
        Properties config = new Properties();
        request.path("config").fields().forEachRemaining(e -> config.put(e.getKey(), e.getValue().asText()));
        tellsPositions = request.path("positions").asBoolean();
        if (request.path("kind").asText().equals("producer")) {
            config.putIfAbsent("max.block.ms", "10000");
            producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        } else if (request.path("kind").asText().equals("consumer")) {
            config.put("enable.auto.commit", "false");
            consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }
    }

    private static void produce(long id, JsonNode request) {
        ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(
                        request.path("topic").asText(),
                        request.has("partition") ? request.path("partition").asInt() : null,
                        bytes(request.path("key")),
                        bytes(request.path("value")));
        for (JsonNode header : request.path("headers")) {
            record.headers().add(header.path(0).asText(), bytes(header.path(1)));
        }
        producer.send(
                record,
                (metadata, error) -> {
                    ObjectNode answer = error == null ? JSON.createObjectNode() : failed(error);
                    if (metadata != null && metadata.partition() >= 0) {
                        answer.put("partition", metadata.partition());
                    }
                    if (error == null && metadata.hasOffset()) {
                        answer.put("offset", metadata.offset());
                    }
                    say(id, answer);
                });
    }

    private static void assign(JsonNode wanted) {
        consumer.assign(places(wanted));
        LEFT.removeIf(record -> !consumer.assignment().contains(of(record)));
        for (JsonNode each : wanted) {
            seek(each);
        }
    }

    private static void seek(JsonNode wanted) {
        TopicPartition place = place(wanted);
        JsonNode offset = wanted.path(2);
        if (offset.isNull()) {
            return;
        }
        LEFT.removeIf(record -> of(record).equals(place));
        if (offset.asText().equals("beginning")) {
            consumer.seekToBeginning(Collections.singleton(place));
        } else if (offset.asText().equals("end")) {
            consumer.seekToEnd(Collections.singleton(place));
        } else {
            consumer.seek(place, offset.asLong());
        }
    }

    private static void poll(long id, int most, Duration limit, ObjectNode answer) {
        Moves.poll = id;
        try {
            // Also with records left: who does not poll is thrown out of a group.
            consumer.poll(LEFT.isEmpty() ? limit : Duration.ZERO).forEach(LEFT::add);
        } catch (InvalidOffsetException error) {
            ObjectNode problem = error(error).put("name", "OFFSET_OUT_OF_RANGE").put("code", 1);
            ArrayNode where = problem.putArray("partitions");
            error.partitions().forEach(place -> add(where, place));
            answer.putArray("errors").add(problem);
        } catch (KafkaException error) {
            answer.putArray("errors").add(error(error));
        }
        ArrayNode records = answer.putArray("records");
        while (records.size() < most && !LEFT.isEmpty()) {
            ConsumerRecord<byte[], byte[]> record = LEFT.poll();
            ArrayNode told = add(records, of(record)).add(record.offset());
            told.add(text(record.key())).add(text(record.value()));
            if (record.headers().toArray().length > 0) {
                ArrayNode headers = told.addArray();
                for (Header header : record.headers()) {
                    headers.addArray().add(header.key()).add(text(header.value()));
                }
            }
        }
        if (tellsPositions) {
            ArrayNode positions = answer.putArray("positions");
            for (TopicPartition place : consumer.assignment()) {
                try {
                    add(positions, place).add(position(place));
                } catch (KafkaException error) {
                    positions.remove(positions.size() - 1);
                }
            }
        }
    }

    private static long position(TopicPartition place) {
        for (ConsumerRecord<byte[], byte[]> record : LEFT) {
            if (of(record).equals(place)) {
                return record.offset();
            }
        }
        return consumer.position(place, Duration.ofSeconds(1));
    }

    private static ObjectNode commit(long id, JsonNode request, ObjectNode answer) {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        if (request.path("offsets").isNull()) {
            for (TopicPartition place : consumer.assignment()) {
                wanted.put(place, new OffsetAndMetadata(position(place)));
            }
        } else {
            wanted.putAll(offsets(request.path("offsets")));
        }
        if (!request.path("async").asBoolean()) {
            consumer.commitSync(wanted, Duration.ofSeconds(30));
            return committed(answer, wanted);
        }
        consumer.commitAsync(
                wanted,
                (offsets, error) ->
                        say(id, committed(error == null ? answer : failed(error), wanted)));
        return null;
    }

    private static ObjectNode committed(ObjectNode answer, Map<TopicPartition, OffsetAndMetadata> offsets) {
        ArrayNode told = answer.putArray("committed");
        offsets.forEach((place, offset) -> add(told, place).add(offset.offset()));
        return answer;
    }

    /** Tells what the group gives and takes; goes on when the harness has done what it does then. */
    private static final class Moves implements ConsumerRebalanceListener {
        static long poll;
        /** Nobody answers what is told while the consumer leaves its group for good. */
        static boolean isClosing;

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions);
            LEFT.removeIf(record -> partitions.contains(of(record)));
        }

        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            LEFT.removeIf(record -> partitions.contains(of(record)));
            tell("lost", partitions);
        }

        private static void tell(String event, Collection<TopicPartition> partitions) {
            if (partitions.isEmpty() || isClosing) {
                return;
            }
            ObjectNode told = JSON.createObjectNode().put("event", event);
            ArrayNode where = told.putArray("partitions");
            partitions.forEach(place -> add(where, place));
            say(poll, told);
            try {
                JsonNode request = ASKED.take();
                while (!request.path("op").asText().equals("resume")) {
                    handle(request);
                    request = ASKED.take();
                }
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }

    // -- JSON -------------------------------------------------------------------------------------

    private static void say(long id, ObjectNode line) {
        String text = line.put("id", id).toString();
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }

    private static ObjectNode failed(Exception error) {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("error", error(error));
        return answer;
    }

    private static ObjectNode error(Exception error) {
        Errors known = Errors.forException(error);
        ObjectNode told = JSON.createObjectNode().put("message", String.valueOf(error.getMessage()));
        boolean isFatal =
                error instanceof ProducerFencedException
                        || error instanceof OutOfOrderSequenceException
                        || error instanceof AuthorizationException
                        || error instanceof UnsupportedVersionException
                        || error instanceof IllegalStateException;
        boolean isRetriable = error instanceof RetriableException;
        told.put("fatal", isFatal).put("retriable", isRetriable);
        told.put("abortable", !isFatal && !isRetriable && error instanceof KafkaException);
        if (error instanceof TimeoutException) {
            // The client's own patience has ended, or a broker's: nobody knows what was done.
            return told.put("name", "_TIMED_OUT");
        }
        told.put("name", known == Errors.UNKNOWN_SERVER_ERROR ? error.getClass().getSimpleName() : known.name());
        return known == Errors.UNKNOWN_SERVER_ERROR ? told : told.put("code", known.code());
    }

    private static List<String> texts(JsonNode list) {
        List<String> found = new ArrayList<>();
        list.forEach(each -> found.add(each.asText()));
        return found;
    }

    private static TopicPartition place(JsonNode place) {
        return new TopicPartition(place.path(0).asText(), place.path(1).asInt());
    }

    private static List<TopicPartition> places(JsonNode list) {
        List<TopicPartition> found = new ArrayList<>();
        list.forEach(each -> found.add(place(each)));
        return found;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode list) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        list.forEach(each -> found.put(place(each), new OffsetAndMetadata(each.path(2).asLong())));
        return found;
    }

    private static TopicPartition of(ConsumerRecord<byte[], byte[]> record) {
        return new TopicPartition(record.topic(), record.partition());
    }

    private static ArrayNode add(ArrayNode list, TopicPartition place) {
        return list.addArray().add(place.topic()).add(place.partition());
    }

    private static byte[] bytes(JsonNode text) {
        return text.isTextual() ? Base64.getDecoder().decode(text.asText()) : null;
    }

    private static String text(byte[] content) {
        return content == null ? null : Base64.getEncoder().encodeToString(content);
    }
}
