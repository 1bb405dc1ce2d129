package connectshare;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What all clients of one worker have in common: settings, counters, latch.
 *
 * <p>There are six clients with the worker's own properties, and with exactly-once some more for each connector, which are
 * not told the worker's properties: those take the only worker of this JVM.
 */
final class Sharing {
    private static final Logger LOG = LoggerFactory.getLogger(TopicSharingInterceptor.class);
    private static final Map<Settings, Sharing> WORKERS = new HashMap<>();

    final Settings settings;
    final GroupKeys keys;
    final Latch latch = Latch.ofWorker();
    final ConnectorWatch watch;
    /** Null when sharing is off. */
    final SealedTopics sealed;
    final Map<String, TopicCounters> counters = new LinkedHashMap<>();
    // Not those of another worker of the same group in this JVM.
    private final List<ObjectName> registered = new ArrayList<>();
    private int clients;

    private Sharing(Settings settings) {
        this.settings = settings;
        keys = settings.enabled ? new GroupKeys(settings.group) : null;
        watch = new ConnectorWatch(settings);
        sealed = settings.enabled ? new SealedTopics(settings) : null;
        for (String topic : settings.topics.keySet()) {
            counters.put(topic, new TopicCounters(latch));
        }
    }

    /** Returns the sharing of these settings for one more client, which has to {@link #release} it. */
    static Sharing acquire(Settings settings) {
        synchronized (WORKERS) {
            Sharing sharing = WORKERS.get(settings);
            if (sharing == null) {
                requireAlone(settings);
                sharing = new Sharing(settings);
                sharing.announce();
                WORKERS.put(settings, sharing);
            }
            sharing.clients++;
            return sharing;
        }
    }

    /** Refuses the client that disagrees with the worker of this JVM, and not the worker. */
    private static void requireAlone(Settings settings) {
        for (Settings worker : WORKERS.keySet()) {
            if (!worker.enabled) {
                continue;
            }
            String message = "this client's properties say that " + (settings.enabled
                ? "it is of cluster group '" + settings.group + "' with topics " + settings.topics.keySet()
                    + ", the worker of this JVM is of '" + worker.group + "' with topics " + worker.topics.keySet()
                    + "; run another worker in a JVM of its own, or "
                : "topic sharing is off, the worker's own say that it is on; ") + "remove " + Settings.SHARING
                + " and the names of the internal topics from the worker file's producer. and consumer. lines and from the "
                + "connector's overrides";
            LOG.error("Refused a client: {}", message);
            throw new ConfigException(message);
        }
    }

    /**
     * Returns the only worker of this JVM, for a client of a connector.
     *
     * @throws ConfigException there is none, or more than one
     */
    static Sharing ofOnlyWorker() {
        synchronized (WORKERS) {
            if (WORKERS.size() == 1) {
                return WORKERS.values().iterator().next();
            }
            if (WORKERS.isEmpty()) {
                throw new ConfigException(TopicSharingInterceptor.NAME + " is set for the clients of connectors but not for the "
                    + "worker's own; add the line " + Settings.INTERCEPTORS + "=" + TopicSharingInterceptor.NAME
                    + " to the worker file (a distributed worker's), and keep the jar out of plugin.path: a second copy there does "
                    + "not know the worker");
            }
            throw new ConfigException("several workers with topic sharing run in this JVM, and a connector's client cannot tell "
                + "which one is its own; run each in a JVM of its own");
        }
    }

    /** Releases what {@link #acquire} returned; the last release removes the counters. */
    void release() {
        synchronized (WORKERS) {
            clients--;
            if (clients == 0) {
                WORKERS.remove(settings);
                for (ObjectName name : registered) {
                    try {
                        ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
                    } catch (JMException gone) {
                        LOG.debug("No counters to remove: {}", name);
                    }
                }
            }
        }
    }

    private void announce() {
        if (!settings.enabled) {
            LOG.info("Topic sharing is off: {} is not 'enabled', records pass unchanged", Settings.SHARING);
            return;
        }
        LOG.info("Topic sharing is on (version {}): keys of topics {} get the prefix '{}.', records of other groups are dropped",
            TopicSharingInterceptor.version(), settings.topics.keySet(), settings.group);
        if (settings.sealing != SealingMode.OFF) {
            LOG.info("Values are sealed with the first of keys {}; {}", settings.sealingKeys.ids(), settings.sealing == SealingMode.REQUIRED
                ? "only sealed ones of this group are accepted" : "plain ones of this group are accepted too");
        }
        for (Map.Entry<String, TopicCounters> entry : counters.entrySet()) {
            try {
                // Group ids and names of topics have no character that an object name would take for its own.
                ObjectName name = new ObjectName("connectshare:type=TopicCounters,group=" + settings.group + ",topic=" + entry.getKey());
                ManagementFactory.getPlatformMBeanServer().registerMBean(entry.getValue(), name);
                registered.add(name);
            } catch (JMException trouble) {
                LOG.warn("No counters in JMX for topic {}: {}", entry.getKey(), trouble.toString());
            }
        }
    }
}
