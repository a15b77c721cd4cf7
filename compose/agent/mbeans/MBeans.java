import static java.nio.file.StandardOpenOption.TRUNCATE_EXISTING;
import static java.nio.file.StandardOpenOption.WRITE;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;

/**
 * Writes down what a JVM's own MBeans say: the numbers that JMX would give, without its network.
 *
 * <p>Loaded into a running JVM with the argument {@code <file>}. The file's lines are object names, which
 * may be patterns; {@code <file>.out} is written, one attribute a line: name, attribute and number,
 * separated by tabs, or a {@code !} for a name, and what is wrong with a pattern. Only attributes that are numbers or booleans (as 0 and 1) are written.
 */
public final class MBeans {
    private MBeans() {}

    /** Called by the JVM, in its attach thread, which answers when this has returned. */
    public static void agentmain(String file) throws IOException, JMException {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        List<String> lines = new ArrayList<>();
        for (String pattern : Files.readAllLines(Paths.get(file), StandardCharsets.UTF_8)) {
            ObjectName wanted;
            try {
                wanted = new ObjectName(pattern);
            } catch (MalformedObjectNameException error) {
                lines.add("!\t" + error.getMessage() + "\t0");
                break;
            }
            for (ObjectName name : new TreeSet<>(server.queryNames(wanted, null))) {
                describe(server, name, lines);
            }
        }
        // Never made here: in a /tmp whose files are protected, only who made one may open it so.
        Path answer = Paths.get(file + ".out");
        Files.write(answer, lines, StandardCharsets.UTF_8, WRITE, TRUNCATE_EXISTING);
    }

    private static void describe(MBeanServer server, ObjectName name, List<String> lines)
            throws JMException {
        for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
            Object value;
            try {
                value = server.getAttribute(name, attribute.getName());
            } catch (JMException | RuntimeException unreadable) {
                continue; // some cannot be read, and some MBeans are gone meanwhile
            }
            if (value instanceof Boolean) {
                value = ((Boolean) value) ? 1 : 0;
            }
            if (value instanceof Number) {
                lines.add(name + "\t" + attribute.getName() + "\t" + value);
            }
        }
    }
}
