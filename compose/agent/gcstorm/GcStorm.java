import java.util.Locale;

/**
 * Makes a JVM collect its garbage back to back for a while: real pauses, of the JVM's own collector.
 *
 * <p>Loaded into a running JVM with the argument {@code <milliseconds>:<nodes>}, it holds a linked list
 * of that many nodes, which only one marking thread can follow, and asks for one full collection after
 * the other. {@code stop} ends it. Nodes 0 means half of the heap that is free.
 */
public final class GcStorm {
    private static final long MOST_NODES = 2_000_000;
    private static final long NODE_BYTES = 24;

    private static Thread storm;
    private static volatile long endNanos;
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
            endNanos = System.nanoTime();
            return;
        }
        String[] parts = wanted.split(":");
        long durationNanos = Long.parseLong(parts[0]) * 1_000_000L;
        long nodes = parts.length > 1 ? Long.parseLong(parts[1]) : 0;
        endNanos = System.nanoTime() + durationNanos;
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
        long most = Math.min(MOST_NODES, free / 2 / NODE_BYTES);
        long nodes = wantedNodes > 0 ? wantedNodes : most;
        for (long made = 0; made < nodes && System.nanoTime() - endNanos < 0; made++) {
            held = new Node(held);
        }
        while (System.nanoTime() - endNanos < 0) {
            System.gc();
        }
        held = null;
    }
}
