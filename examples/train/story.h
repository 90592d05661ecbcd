/* SPDX-License-Identifier: Apache-2.0 */
/* The text that the example learns. Written for it, and free for any use. */
#ifndef TRAIN_STORY_H
#define TRAIN_STORY_H

static const char story[] =
    "The ferry leaves the old harbour at six, when the lamps along the quay are still burning. The "
    "captain counts the boxes, the mate counts the people, and the cook counts the eggs. There is room "
    "on deck for forty boxes, and today there are sixty. So twenty boxes wait in the shed by the water, "
    "and the mate writes down which ones.\n"
    "On the first island a box is wanted that is in the shed. The mate sends the small boat for it, and "
    "with the small boat goes a box that nobody wants today. The captain does not wait. The ferry goes "
    "on to the second island, and the small boat finds it there. On the second island a box is wanted "
    "that is on deck, and that costs nothing.\n"
    "In the evening the ferry comes back to the old harbour. The captain counts the boxes, the mate "
    "counts the people, and the cook counts the eggs. Every box was on deck when it was wanted, and no "
    "box was lost. The people say that the ferry is small. The captain says that the shed is large, that "
    "the small boat is quick, and that the mate can read what is written down.\n"
    "Tomorrow there will be eighty boxes. The captain asks whether the ferry should be larger. The mate "
    "looks at the list for a long time. If the boxes for the last island wait in the shed, says the "
    "mate, and if the small boat leaves early, then forty boxes on deck are enough. The cook says that "
    "nobody asked about the eggs. The eggs stay on deck, says the captain, because eggs are wanted every "
    "day.\n"
    "The lamps along the quay are lit again. The old harbour is quiet, the shed is full, and the small "
    "boat is tied to the ferry. At six the ferry leaves.\n";

#endif
