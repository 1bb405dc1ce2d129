package connectshare;

import connectshare.GroupKeys.TopicType;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks at the configurations of the group's own connectors for what would make their clients bypass the interceptor.
 *
 * <p>Nobody can refuse it at that place, so it is said in the log: once for each connector and property.
 */
final class ConnectorWatch {
    private static final Logger LOG = LoggerFactory.getLogger(TopicSharingInterceptor.class);
    private static final String CONNECTOR = "connector-";
    private static final String[] OVERRIDES = {"producer.override.interceptor.classes", "consumer.override.interceptor.classes"};
    private static final String OWN_OFFSETS = "offsets.storage.topic";
    private static final int MOST_SAID = 10_000;

    private final Settings settings;
    private final Set<String> said = new HashSet<>();

    ConnectorWatch(Settings settings) {
        this.settings = settings;
    }

    /** Notes one own record of the config topic. Never throws for its content; values are not shown. */
    void see(Object originalKey, Object value) {
        if (!(originalKey instanceof String) || !(value instanceof byte[]) || !((String) originalKey).startsWith(CONNECTOR)) {
            return;
        }
        String connector = ((String) originalKey).substring(CONNECTOR.length());
        String json = new String((byte[]) value, StandardCharsets.UTF_8);
        String offsets = property(json, OWN_OFFSETS);
        TopicType internal = offsets == null || offsets.isEmpty() ? null : settings.topics.get(offsets);
        if (internal == TopicType.CONFIG || internal == TopicType.STATUS || internal != null && !settings.reachesConnectors) {
            say(connector, OWN_OFFSETS, "names an internal topic of the worker: its client writes keys without the group's "
                + "prefix there; remove it, or name a topic of its own");
        }
        // MirrorMaker's sources have topics, too.
        boolean source = String.valueOf(property(json, "connector.class")).matches("(.*\\.)?([^.]*Source|Mirror)[^.]*");
        boolean sink = !source && (property(json, "topics") != null || property(json, "topics.regex") != null);
        boolean writesToWorkersTopic = offsets == null || offsets.isEmpty() ? settings.exactlyOnce : internal == TopicType.OFFSET;
        if (sink || !writesToWorkersTopic || !settings.reachesConnectors || settings.staysInConnectors) {
            return;
        }
        for (String property : OVERRIDES) {
            String found = property(json, property);
            if (found != null && !found.contains(TopicSharingInterceptor.NAME)) {
                say(connector, property, "replaces the worker's interceptor: its offsets bypass topic sharing; "
                    + "add " + TopicSharingInterceptor.NAME + " to it");
            }
        }
    }

    private void say(String connector, String property, String trouble) {
        synchronized (said) {
            if (said.size() < MOST_SAID && said.add(property + " " + connector)) {
                LOG.error("Connector '{}': {} {}", Texts.shown(connector), property, trouble);
            }
        }
    }

    /** The text value of a member of a JSON object, found without a parser; null if there is none. */
    static String property(String json, String name) {
        String quoted = "\"" + name + "\"";
        for (int at = json.indexOf(quoted); at >= 0; at = json.indexOf(quoted, at + 1)) {
            int colon = skipBlanks(json, at + quoted.length());
            // Without a colon it is the value of another member.
            if (colon < json.length() && json.charAt(colon) == ':') {
                int open = skipBlanks(json, colon + 1);
                int close = open < json.length() && json.charAt(open) == '"' ? json.indexOf('"', open + 1) : -1;
                return close < 0 ? null : json.substring(open + 1, close);
            }
        }
        return null;
    }

    private static int skipBlanks(String json, int at) {
        int i = at;
        while (i < json.length() && Character.isWhitespace(json.charAt(i))) {
            i++;
        }
        return i;
    }
}
