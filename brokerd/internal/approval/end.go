package approval

import "boxmaker/internal/proto"

// End gives how an approval ended, if it did lately.
func (d *Desk) End(id string) (proto.Answered, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	end, ok := d.ended[id]
	return end, ok
}
