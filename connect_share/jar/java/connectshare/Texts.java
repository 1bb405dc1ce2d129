package connectshare;

/** Texts from outside, made fit for one line of a log. */
final class Texts {
    private static final int LONGEST = 200;

    private Texts() {
    }

    /** The text with everything but printable ASCII escaped, cut if very long. */
    static String shown(String text) {
        StringBuilder out = new StringBuilder();
        int end = Math.min(text.length(), LONGEST);
        for (int i = 0; i < end; i++) {
            char c = text.charAt(i);
            if (c >= 0x20 && c < 0x7f) {
                out.append(c);
            } else {
                out.append(String.format("\\u%04x", (int) c));
            }
        }
        return end < text.length() ? out.append("...").toString() : out.toString();
    }
}
