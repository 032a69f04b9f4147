"""What past waves left behind: find it, restore it, reclaim its disk, reproduce its proof."""
