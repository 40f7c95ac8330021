use std::time::Duration;
use crate::world::World;

#[test]
fn sessions_come_up() {
    let mut world = World::up(4, 1);
    world.run_for(Duration::from_secs(10));
    assert!(world.all_valid());
    let a = world.attach(0);
    assert!(world.actors[a].attached);
}
