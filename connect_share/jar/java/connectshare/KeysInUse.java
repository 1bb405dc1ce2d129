package connectshare;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Which of its keys a group uses, as its config topic says.
 *
 * <p>While a group changes its key, its values are under two. A worker that has one of them only must not start with half of the
 * state, and anybody can write a value under an id that the group has not. So each id is announced under each other key, by a sealed
 * removal under {@code target-state- key-<id>-<id of the other>}, which Connect takes for that of a target state that is not there.
 *
 * <p>The same as {@code connect_share/sealing/seals.py}. Thread-safe.
 */
final class KeysInUse {
    static final String ANNOUNCED = MovedGroup.KEY + " key-";

    private final KeyRing ring;
    private final Set<String> announced = new HashSet<>();
    // Keys with a value that is not under the first key of the file.
    private final Set<String> underOthers = new HashSet<>();
    private boolean opens;
    private String unknown;

    KeysInUse(KeyRing ring) {
        this.ring = ring;
    }

    /** Notes a value that was opened; returns the id that it announces and that the worker does not have, null: none. */
    synchronized String see(String key, int id, boolean removal) {
        opens = true;
        if (!key.startsWith(ANNOUNCED)) {
            if (id == ring.sealingId) {
                underOthers.remove(key);
            } else {
                underOthers.add(key);
            }
            return null;
        }
        if (!removal) {
            announced.remove(key);
            return null;
        }
        announced.add(key);
        String number = key.substring(ANNOUNCED.length()).split("-", 2)[0];
        boolean known = !number.matches("[0-9]{1,10}") || ring.keys.containsKey((int) Long.parseLong(number));
        return known ? null : number;
    }

    /** Notes where a value lies whose key is not here. */
    synchronized void unknown(String text) {
        unknown = unknown == null ? text : unknown;
    }

    /** Returns what speaks against a start as far as the topic was read: nothing opens. Null: nothing does. */
    synchronized String soFar() {
        return opens ? null : unknown;
    }

    /** Returns why nothing may be written: nothing that was read opens. Null: it may, and is not asked again. */
    synchronized String objection() {
        opens |= unknown == null;
        return soFar();
    }

    /** Returns pairs of ids, of which the first is to be announced under the second; usually none. */
    synchronized List<int[]> unannounced() {
        List<int[]> pairs = new ArrayList<>();
        if (underOthers.isEmpty()) {
            return pairs;
        }
        for (int id : ring.keys.keySet()) {
            for (int under : ring.keys.keySet()) {
                if (id != under && announced.add(key(id, under))) {
                    pairs.add(new int[] {id, under});
                }
            }
        }
        return pairs;
    }

    /** The key, without the prefix, under which an id is announced. */
    static String key(int id, int under) {
        return ANNOUNCED + Integer.toUnsignedString(id) + "-" + Integer.toUnsignedString(under);
    }
}
