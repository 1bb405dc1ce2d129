package connectpeers;

import static net.bytebuddy.matcher.ElementMatchers.isStatic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.lang.instrument.Instrumentation;
import java.util.Map;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** Puts {@link Clusters} at four places of Kafka's own test classes, which stay as they are in their jar; it must not load them itself. */
public final class Agent {
    private static final String PACKAGE = "org.apache.kafka.connect.util.clusters.";

    private Agent() {
    }

    /** For the JVM, before the tests. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        AgentBuilder builder = new AgentBuilder.Default().with(AgentBuilder.Listener.StreamWriting.toSystemError().withErrorsOnly());
        builder = at(builder, "WorkerHandle", named("start").and(isStatic()).and(takesArguments(2)), AtStart.class);
        builder = at(builder, "EmbeddedKafkaCluster", named("produce").and(takesArguments(4)), AtProduce.class);
        builder = at(builder, "EmbeddedKafkaCluster", named("createConsumer").and(takesArguments(1)), AtConsumer.class);
        at(builder, "EmbeddedKafkaCluster", named("stop").and(takesArguments(0)), AtStop.class).installOn(instrumentation);
    }

    private static AgentBuilder at(
            AgentBuilder builder, String type, ElementMatcher<MethodDescription> method, Class<?> advice) {
        return builder.type(named(PACKAGE + type)).transform((found, description, loader, module, domain) ->
            found.visit(Advice.to(advice).on(method)));
    }

    static final class AtStart {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 1, readOnly = false) Map<String, String> properties) {
            properties = Clusters.workerStarts(properties);
        }
    }

    static final class AtProduce {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(
                @Advice.This Object cluster, @Advice.Argument(0) String topic,
                @Advice.Argument(2) String key, @Advice.Argument(3) String value) {
            return Clusters.produced(cluster, topic, key, value);
        }
    }

    static final class AtConsumer {
        @Advice.OnMethodEnter
        static void enter(
                @Advice.This Object cluster,
                @Advice.Argument(value = 0, readOnly = false) Map<String, Object> properties) {
            properties = Clusters.consumer(cluster, properties);
        }
    }

    static final class AtStop {
        @Advice.OnMethodEnter
        static void enter(@Advice.This Object cluster) {
            Clusters.stops(cluster);
        }
    }
}
