import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Locale;

/**
 * Makes a JVM collect its garbage back to back for a while: real pauses, of the JVM's own collector.
 *
 * <p>Loaded into a running JVM with the argument {@code <milliseconds>:<nodes>:<collecting>}, it holds
 * a linked list of that many nodes, which only one marking thread can follow, and asks for one full
 * collection after the other. On a busy machine threads wait long between two collections: it then goes
 * on until these took {@code <collecting>} milliseconds, three times as long as asked for at most and
 * no more than 18 s longer.
 * {@code stop} ends it. The list takes three quarters of the free heap at most, so that the
 * JVM never runs out of it. Nodes 0 means half of the free heap, and at most 2 million nodes.
 */
public final class GcStorm {
    private static final long MOST_NODES = 2_000_000;
    private static final long SMALL_HEAP_BYTES = 32L << 30;
    private static final long MOST_LONGER_NANOS = 18_000_000_000L;

    private static Thread storm;
    private static volatile long endNanos;
    private static volatile long lastNanos;
    private static volatile long wantedMillis;
    private static volatile Node held;

    private GcStorm() {}

    private static final class Node {
        final Node next;

        Node(Node next) {
            this.next = next;
        }
    }

    /** Called by the JVM, in its attach thread, each time the agent is loaded. */
    public static synchronized void agentmain(String argument) {
        String wanted = argument.trim().toLowerCase(Locale.ROOT);
        if (wanted.equals("stop")) {
            lastNanos = endNanos = System.nanoTime();
            return;
        }
        String[] parts = wanted.split(":");
        long durationNanos = Long.parseLong(parts[0]) * 1_000_000L;
        long nodes = parts.length > 1 ? Long.parseLong(parts[1]) : 0;
        long collecting = parts.length > 2 ? Long.parseLong(parts[2]) : 0;
        wantedMillis = collecting > 0 ? collectedMillis() + collecting : 0;
        long end = System.nanoTime() + durationNanos;
        lastNanos = end + Math.min(2 * durationNanos, MOST_LONGER_NANOS);
        endNanos = end;
        if (storm != null && storm.isAlive()) {
            return; // it goes on until the new end
        }
        storm = new Thread(() -> rage(nodes), "kafka-chaos-gc-storm");
        storm.setDaemon(true);
        storm.setPriority(Thread.MAX_PRIORITY);
        storm.start();
    }

    private static void rage(long wantedNodes) {
        Runtime heap = Runtime.getRuntime();
        long free = heap.maxMemory() - heap.totalMemory() + heap.freeMemory();
        // A header of 12 bytes and a pointer of 4, which a JVM with a large heap does not compress.
        long nodeBytes = heap.maxMemory() < SMALL_HEAP_BYTES ? 16 : 24;
        long nodes = wantedNodes > 0
                ? Math.min(wantedNodes, free / 4 * 3 / nodeBytes)
                : Math.min(MOST_NODES, free / 2 / nodeBytes);
        for (long made = 0; made < nodes && System.nanoTime() - endNanos < 0; made++) {
            held = new Node(held);
        }
        while (System.nanoTime() - endNanos < 0 || lacksCollections()) {
            System.gc();
        }
        held = null;
    }

    private static boolean lacksCollections() {
        return System.nanoTime() - lastNanos < 0 && collectedMillis() < wantedMillis;
    }

    /** How long all collectors of this JVM have worked since it began. */
    private static long collectedMillis() {
        long total = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            total += collector.getCollectionTime();
        }
        return total;
    }
}
