// A picture that a model of images answers to, and where it looked in it.

const FAINT = 0.15; // is how much is left of what was not looked at

// The bytes of a file in base64.
export function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}

// Draws a picture as the model sees it: as large as the square holds, in its middle. With weights,
// those of a square grid row by row, what has none fades.
export function drawPicture(canvas, picture, weights) {
  const context = canvas.getContext("2d");
  const size = canvas.width;
  const scale = size / Math.max(picture.width, picture.height);
  const [width, height] = [picture.width * scale, picture.height * scale];
  const [left, top] = [(size - width) / 2, (size - height) / 2];
  context.clearRect(0, 0, size, size);
  context.imageSmoothingEnabled = scale < 1;
  context.drawImage(picture, left, top, width, height);
  if (!weights) return;
  const side = Math.round(Math.sqrt(weights.length));
  const most = Math.max(...weights, 1e-9);
  const veil = new OffscreenCanvas(side, side);
  const pen = veil.getContext("2d");
  weights.forEach((weight, i) => {
    pen.fillStyle = `rgb(255 255 255 / ${(1 - FAINT) * (1 - weight / most)})`;
    pen.fillRect(i % side, Math.floor(i / side), 1, 1);
  });
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.imageSmoothingEnabled = true;
  context.drawImage(veil, 0, 0, size, size);
  context.restore();
}
